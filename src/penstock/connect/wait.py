"""Waiting for an end by looking, at first often and then more seldom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import TypeVar

from penstock.errors import BadArgument, JobCancelled, JobFailed
from penstock.job import CANCELLED, FAILED, Job

T = TypeVar("T")

FIRST_LOOK = 0.01
LAST_LOOK = 0.5
LOOK_GRACE = 0.5


class NoAnswer(Exception):
    """The time was up before the first look had an answer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"There was no answer within {seconds:g} s.")


async def until(
    is_over: Callable[[T], bool],
    look: Callable[[], Awaitable[T]],
    timeout: float | None,
    *,
    grace: float | None = None,
) -> T:
    """Look until it is over or the time is up; what was seen last.

    `grace` is how long a look under way may outlast the time; without it, as long as it takes.
    """
    patience = PollTimer(timeout)
    seen: list[T] = []
    while True:
        limit = asyncio.timeout_at(patience.last_look(grace))
        try:
            async with limit:
                seen = [await look()]
        except TimeoutError:
            if not limit.expired():
                raise
            if not seen:
                raise NoAnswer((timeout or 0.0) + (grace or 0.0)) from None
            return seen[0]
        if is_over(seen[0]) or patience.is_over:
            return seen[0]
        await patience.pause()


def seconds_of(timeout: float | timedelta | None) -> float | None:
    number = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if number is None:
        return None
    # NaN is not at least 0 either.
    if type(number) not in (int, float) or not number >= 0:
        raise BadArgument("timeout", timeout, "a number of seconds from 0 on, a timedelta, or None")
    return number


class PollTimer:
    """How long to sleep before the next look, until the time is up."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._looks = _growing()

    def last_look(self, grace: float | None) -> float | None:
        """When a look must have its answer, by the clock of the event loop."""
        if self._end is None or grace is None:
            return None
        return asyncio.get_running_loop().time() + self._end - time.monotonic() + grace

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    async def pause(self) -> None:
        look = next(self._looks)
        if self._end is not None:
            look = min(look, max(self._end - time.monotonic(), 0.0))
        await asyncio.sleep(look)


def verdict(job: Job) -> object:
    """What a final job came to: its result, or the error that says why there is none."""
    if job.state == FAILED:
        error = job.last_error
        raise JobFailed(
            job.id,
            job.reason,
            error.type if error else None,
            error.message if error else None,
        )
    if job.state == CANCELLED:
        raise JobCancelled(job.id, job.reason)
    return job.result


def _growing() -> Iterator[float]:
    look = FIRST_LOOK
    while True:
        yield look
        look = min(look * 1.5, LAST_LOOK)
