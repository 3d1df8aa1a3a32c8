"""How far an ingest is, for who looks at it."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self

from penstock.cli.output import Output, say, terminal
from penstock.wording import counted

EVERY = 5.0


class Screen(Protocol):
    """Where progress is shown."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: Any) -> None: ...

    def reading(self, done: int, total: int) -> None:
        """So many files were looked at."""

    def working(self, done: int, total: int, failed: int) -> None:
        """So many documents are in."""

    def indexing(self) -> None:
        """All are in, and searched the faster in a moment."""

    def removing(self, number: int) -> None:
        """What is left of so many documents that are deleted goes."""

    def tell(self, line: str) -> None:
        """Say something that is worth a line of its own."""


def screen_for(output: Output) -> Screen:
    """Bars at a terminal; else a line now and then, on stderr."""
    console = terminal(stderr=True)
    return Bars(console) if console.is_terminal else Lines(quiet=output.as_json)


class Bars:
    """Two bars that move."""

    def __init__(self, console: Any) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._looked = self._progress.add_task("Reading", total=None, rate="")
        self._brought = self._progress.add_task("Taking in", total=None, rate="", visible=False)
        self._began: float | None = None

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.__exit__(kind, error, trace)

    def reading(self, done: int, total: int) -> None:
        self._progress.update(self._looked, completed=done, total=total)

    def working(self, done: int, total: int, failed: int) -> None:
        self._began = self._began or time.monotonic()
        seconds = time.monotonic() - self._began
        rate = f"{done / seconds:.0f}/s" if done and seconds > 1 else ""
        if failed:
            rate += f"  {failed} failed"
        self._progress.update(self._brought, completed=done, total=total, rate=rate, visible=True)

    def indexing(self) -> None:
        self._progress.update(self._brought, description="Making the index")

    def removing(self, number: int) -> None:
        self._progress.update(self._looked, description=f"Removing {counted(number, 'document')}")

    def tell(self, line: str) -> None:
        self._progress.console.print(line, markup=False)


class Lines(AbstractContextManager[Any]):
    """A line every few seconds, for logs."""

    def __init__(self, *, quiet: bool, every: float = EVERY) -> None:
        self._quiet = quiet
        self._every = every
        self._due = time.monotonic() + every

    def __exit__(self, *error: Any) -> None:
        return None

    def reading(self, done: int, total: int) -> None:
        self._tell(f"{done:,} of {total:,} files read")

    def working(self, done: int, total: int, failed: int) -> None:
        told = f"{done:,} of {total:,} documents are in"
        self._tell(told + (f", {failed:,} failed" if failed else ""))

    def indexing(self) -> None:
        self._tell("all documents are in, and their index is made")

    def removing(self, number: int) -> None:
        self._tell(f"removing {counted(number, 'document')}")

    def tell(self, line: str) -> None:
        say(line)

    def _tell(self, line: str) -> None:
        if not self._quiet and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._every
            say(line)
