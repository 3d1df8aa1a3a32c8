"""Server-sent events, read line by line."""

from __future__ import annotations

from msgspec import Struct


class Event(Struct, frozen=True):
    """What came: its id, and its data."""

    id: str
    data: str


class Events:
    """Puts lines together; remembers where to go on, and how soon to come back."""

    def __init__(self) -> None:
        self.last_id = ""
        self.retry = 1.0
        self._id = ""
        self._data: list[str] = []

    def take(self, line: str) -> Event | None:
        """The event that a line completes."""
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        elif name == "retry" and value.isdecimal():
            self.retry = int(value) / 1000
        return None

    def drop(self) -> None:
        """The stream has broken off: half an event is none."""
        self._data = []

    def _complete(self) -> Event | None:
        if not self._data:
            return None
        data, self._data = "\n".join(self._data), []
        self.last_id = self._id
        return Event(self._id, data)
