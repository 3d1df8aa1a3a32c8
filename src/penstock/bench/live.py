"""What the bench is doing, shown while it does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status


class Live:
    """One line for what is under way, one line for each result; on stderr."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._what = ""

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        self._what = what
        with self._console.status(what) as self._status:
            yield
        self._status = None

    def progress(self, done: int, total: int) -> None:
        if self._status is not None:
            self._status.update(f"{self._what}  {done:,} of {total:,}")

    def result(self, what: str, value: str) -> None:
        self._console.print(f"{what:<42} {value}")

    def warn(self, text: str) -> None:
        self._console.print(text, style="yellow")
