"""Follow a subject's states over server-sent events, over as many connections as it takes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import httpx
import msgspec
from msgspec import Struct

from penstock.api.errors import error_of
from penstock.api.transport import AGAIN, PREFIX, Answer, Request, Wire, why
from penstock.errors import ServiceUnreachable
from penstock.groups.batches import BatchStatus
from penstock.groups.snapshots import JobNow, OwnerNow, SubjectKind
from penstock.insights import QueueInsight

Now: TypeAlias = JobNow | BatchStatus | QueueInsight | OwnerNow
# What a subject's state is, by its kind.
STATES: Final[dict[SubjectKind, type[Now]]] = {
    "job": JobNow,
    "batch": BatchStatus,
    "queue": QueueInsight,
    "tenant": OwnerNow,
    "user": OwnerNow,
}


class New(Struct, frozen=True, omit_defaults=True):
    """A job to be enqueued: a task by its name, arguments, and options as the task takes them."""

    task: str
    args: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}


class Live(Struct, frozen=True, kw_only=True):
    """The whole present state of a subject; after one that is `final` nothing comes."""

    subject: str
    version: str | None
    final: bool
    state: Now | None


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


# A server says every 15 s that it lives.
SILENT: Final = 40.0
# Without any answer for so long, it is not coming back.
AWAY: Final = 60.0
NOTHING_NEW: Final = 204


class _Told(Struct, frozen=True):
    subject: str
    version: str | None
    final: bool
    state: msgspec.Raw


class Watching:
    """Listens, and goes on where a connection has broken off."""

    def __init__(self, wire: Wire, kind: SubjectKind, id: str, timeout: float | None) -> None:
        self._wire = wire
        self._path = f"{PREFIX}/live/{kind}/{quote(id, safe='')}"
        self._end = None if timeout is None else time.monotonic() + timeout
        self._heard = time.monotonic()
        self._events = Events()

    async def states(self, kind: type[Now]) -> AsyncGenerator[Live, None]:
        """Each state that differs from the one before; ends after a final one."""
        while not self._is_over:
            try:
                async for event in self._connection():
                    if event is None:
                        return
                    yield (told := _live(event, kind))
                    if told.final:
                        return
            except httpx.TransportError as error:
                if time.monotonic() - self._heard > AWAY:
                    raise ServiceUnreachable(why(error), is_sent=False) from error
            self._events.drop()
            await self._wire.pause(min(self._events.retry, self._left))

    async def _connection(self) -> AsyncGenerator[Event | None, None]:
        """The events of one connection; None if nothing comes any more."""
        lines = self._wire.lines(self._request())
        try:
            async for line in lines:
                if isinstance(line, Answer):
                    if line.status == NOTHING_NEW:
                        yield None
                    elif line.status in AGAIN:
                        return
                    elif line.status != 200:
                        raise error_of(line.status, line.body)
                    self._heard = time.monotonic()
                elif (event := self._events.take(line)) is not None:
                    yield event
                if self._is_over:
                    return
        finally:
            await lines.aclose()

    def _request(self) -> Request:
        headers = {"accept": "text/event-stream"}
        if self._events.last_id:
            headers["last-event-id"] = self._events.last_id
        return Request("GET", self._path, headers=headers, wait=min(SILENT, self._left + 0.01))

    @property
    def _left(self) -> float:
        return SILENT if self._end is None else max(self._end - time.monotonic(), 0.0)

    @property
    def _is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


def _live(event: Event, kind: type[Now]) -> Live:
    told = msgspec.json.decode(event.data, type=_Told)
    state: Any = msgspec.json.decode(told.state, type=kind | None)
    return Live(subject=told.subject, version=told.version, final=told.final, state=state)
