"""Wait for the end of a job, batch or workflow by polling, at growing intervals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import TypeVar

from penstock.errors import BadArgument, JobCancelled, JobFailed
from penstock.job import CANCELLED, FAILED, Job

T = TypeVar("T")

MIN_POLL_INTERVAL_S = 0.01
MAX_POLL_INTERVAL_S = 0.5
ANSWER_GRACE_S = 0.5


class NoAnswer(Exception):
    """The timeout passed before the first poll had an answer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"There was no answer within {seconds:g} s.")


async def poll_until(
    is_done: Callable[[T], bool],
    read: Callable[[], Awaitable[T]],
    timeout: float | None,
    *,
    grace: float | None = None,
) -> T:
    """Read a value repeatedly until `is_done` accepts it or the timeout passes.

    Return the last value. A read that is running when the timeout passes may take up to `grace`
    more seconds. None sets no limit. Raises NoAnswer if even the first read was not answered by
    then.
    """
    timer = PollTimer(timeout)
    values: list[T] = []
    while True:
        limit = asyncio.timeout_at(timer.read_deadline(grace))
        try:
            async with limit:
                values = [await read()]
        except TimeoutError:
            if not limit.expired():
                raise
            if not values:
                raise NoAnswer((timeout or 0.0) + (grace or 0.0)) from None
            return values[0]
        if is_done(values[0]) or timer.is_over:
            return values[0]
        await timer.pause()


def seconds_of(timeout: float | timedelta | None) -> float | None:
    """Return a timeout in seconds, or None for no timeout.

    Raises BadArgument for a value that is not a valid timeout.
    """
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if seconds is None:
        return None
    # `not … >= 0` also refuses NaN.
    if type(seconds) not in (int, float) or not seconds >= 0:
        raise BadArgument("timeout", timeout, "a number of seconds from 0 on, a timedelta, or None")
    return seconds


class PollTimer:
    """Sleep between polls, at growing intervals, until the timeout has passed."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout
        self._intervals = _growing_intervals()

    def read_deadline(self, grace: float | None) -> float | None:
        """Return when a read must have its answer, by the clock of the event loop.

        Return None if there is no limit.
        """
        if self._end is None or grace is None:
            return None
        return asyncio.get_running_loop().time() + self._end - time.monotonic() + grace

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    async def pause(self) -> None:
        interval = next(self._intervals)
        if self._end is not None:
            interval = min(interval, max(self._end - time.monotonic(), 0.0))
        await asyncio.sleep(interval)


def result_of(job: Job) -> object:
    """Return the result of a final job. Raises JobFailed or JobCancelled if it has none."""
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


def _growing_intervals() -> Iterator[float]:
    interval = MIN_POLL_INTERVAL_S
    while True:
        yield interval
        interval = min(interval * 1.5, MAX_POLL_INTERVAL_S)
