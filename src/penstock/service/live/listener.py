"""One client's end of what is told: it holds up nobody, and keeps of each subject one state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from penstock.service.live.subject import Subject
from penstock.service.live.told import Told

# Its client has gone; this server stops; it has listened for long enough and should ask again; it
# sends what is no text.
Why = Literal["left", "stopping", "over", "binary"]


class Ended(Exception):
    """There is no more to hear."""

    def __init__(self, why: Why) -> None:
        self.why = why
        super().__init__(why)


class Listener:
    """A mailbox with room for the newest state of each subject.

    A state that was not taken yet gives way to the next, so a slow client misses what came in
    between and never the last.
    """

    def __init__(self) -> None:
        self._news: dict[Subject, Told] = {}
        self._woken = asyncio.Event()
        self._why: Why | None = None
        self._trouble: Exception | None = None

    def tell(self, told: Told) -> None:
        self._news[told.subject] = told
        self._woken.set()

    def trouble(self, error: Exception) -> None:
        """What is in the way of the first look, for one who waits for it."""
        self._trouble = error
        self._woken.set()

    def forget(self, subject: Subject) -> None:
        """Tell nothing more of a subject that is listened to no longer."""
        self._news.pop(subject, None)

    def end(self, why: Why) -> None:
        """Let `next` raise Ended, at once."""
        self._why = self._why or why
        self._woken.set()

    async def first(self, seconds: float) -> Told | None:
        """As `next`, but raises what is in the way."""
        await self._wait(seconds, lambda: bool(self._news or self._why or self._trouble))
        if self._trouble is not None and not self._news:
            raise self._trouble
        return self._taken()

    async def next(self, seconds: float) -> Told | None:
        """The next news; None if there is none for so many seconds."""
        await self._wait(seconds, lambda: bool(self._news or self._why))
        return self._taken()

    async def _wait(self, seconds: float, is_woken: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_woken():
                    self._woken.clear()
                    await self._woken.wait()

    def _taken(self) -> Told | None:
        # What is in the box is told before a server stops, but to nobody who has gone.
        if self._why is not None and (self._why == "left" or not self._news):
            raise Ended(self._why)
        return self._news.pop(next(iter(self._news))) if self._news else None
