"""Waking workers without a NOTIFY for every commit.

NOTIFY takes a lock over all commits of a server, so a busy producer must not send one each time.
The first enqueue after a quiet moment carries its own; those that follow within the interval
share one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from penstock.connect.connector import Connector
from penstock.forks import reset_in_forks
from penstock.store import errors
from penstock.store.enqueue import AnyRequest, Stored

logger = logging.getLogger("penstock.wake")

INTERVAL = 0.005
# How long the shared notification takes to reach the server, with room to spare. One that took
# longer is sent again: what it says of when the jobs came was too late.
ON_THE_WAY = 0.25

# Queue, lane and priority; no lane stands for many.
ReadyLane = tuple[str, str | None, int]
# So many lines are told by name; of more, only that there are.
NAMED = 64
# Stands for all jobs that are due later, among the lines (a queue's name is never empty).
LATER: ReadyLane = ("", "", 0)


class Wake:
    """Tells workers of new jobs: at once when it is quiet, together when it is busy."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self.reset_after_fork()
        reset_in_forks(self)

    def reset_after_fork(self) -> None:
        """Have told nothing and nothing to tell; in a forked child the parent tells the rest."""
        self._last: dict[ReadyLane, float] = {}
        self._pending: set[ReadyLane] = set()
        self._due: float | None = None
        self._since = 0.0
        self._task: asyncio.Task[None] | None = None

    def rides_along(self, requests: Sequence[AnyRequest]) -> bool:
        """Whether the enqueue should carry the NOTIFY itself; if not, `follow_up` after it."""
        now = time.monotonic()
        lines, due = _lines(requests)
        told = lines if due is None else lines | {LATER}
        if not self._is_sending and all(
            now - self._last.get(line, -1.0) > INTERVAL for line in told
        ):
            self._remember(told, now)
            return True
        return False

    def follow_up(self, requests: Sequence[AnyRequest], stored: Stored, since: float) -> None:
        """After a commit that carried none: send a shared one once the interval is over."""
        lines, due = _lines(requests, stored)
        if not self._pending and self._due is None:
            self._since = since
        self._since = min(self._since, since)
        self._pending |= lines
        if due is not None:
            self._due = due if self._due is None else min(self._due, due)
        self._send_soon()

    @property
    def _is_sending(self) -> bool:
        """Whether a shared one is on its way, unless the loop that was to send it has ended."""
        task = self._task
        return task is not None and task.get_loop() is asyncio.get_running_loop()

    def _send_soon(self) -> None:
        if not self._is_sending and (self._pending or self._due is not None):
            self._task = asyncio.create_task(self._send_later(), name="penstock wake")

    def _remember(self, lines: set[ReadyLane], now: float) -> None:
        if len(self._last) > 1000:
            self._last.clear()
        for line in lines:
            self._last[line] = now

    async def _send_later(self) -> None:
        try:
            await asyncio.sleep(INTERVAL)
            await self._send()
        except Exception as error:
            # Polling finds the jobs all the same, a moment later.
            if not errors.is_lost(error):
                logger.exception("Workers could not be notified.")
        finally:
            self._task = None
        self._send_soon()

    async def _send(self) -> None:
        lines, self._pending = self._pending, set()
        due, self._due = self._due, None
        since = self._since
        try:
            await self._tell(lines, due, since)
        except asyncio.CancelledError:
            # Whoever closes sends it with the rest.
            self._pending |= lines
            self._due = min((each for each in (due, self._due) if each is not None), default=None)
            self._since = since
            raise

    async def _tell(self, lines: set[ReadyLane], due: float | None, since: float) -> None:
        pool, store = await self._connector.pool(), self._connector.store
        told: set[ReadyLane] = {(queue, "", priority) for queue, _, priority in lines}
        self._remember(told if due is None else told | {LATER}, time.monotonic())
        if lines:
            await _in_time(since, lambda age: store.notify_ready(pool, _summary(lines), age))
        if due is not None:
            await _in_time(since, lambda age: store.notify_due(pool, due - age))

    async def close(self, seconds: float) -> None:
        """Send what is pending, now, if it can be sent in so many seconds."""
        task = self._task if self._is_sending else None
        self._task = None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._pending or self._due is not None:
            try:
                async with asyncio.timeout(seconds):
                    await self._send()
            except Exception as error:
                logger.debug("The last notification was not sent: %s", error)


async def _in_time(since: float, tell: Callable[[float], Awaitable[None]]) -> None:
    """Tell how long ago it was at most; again, as long as that was on its way for longer."""
    on_the_way = ON_THE_WAY
    while True:
        began = time.monotonic()
        await tell(began - since + on_the_way)
        taken = time.monotonic() - began
        if taken <= on_the_way:
            return
        on_the_way = 2 * taken


def _lines(
    requests: Sequence[AnyRequest], stored: Stored | None = None
) -> tuple[set[ReadyLane], float | None]:
    """The lines that get ready jobs, and in how many seconds the first later one is due."""
    lines: set[ReadyLane] = set()
    due: float | None = None
    for options in {id(request.options): request.options for request in requests}.values():
        if options.delay or options.run_at:
            # An absolute time is the database's to judge: the promoter looks at once.
            due = min(options.delay or 0.0, due if due is not None else float("inf"))
        if not options.delay:
            lines.add((options.queue, "", options.priority))
    if stored is not None and stored.lanes is not None and stored.priorities is not None:
        lines = {
            (request.options.queue, lane, priority)
            for request, lane, priority in zip(
                requests, stored.lanes, stored.priorities, strict=True
            )
            if not request.options.delay
        }
    return lines, due


def _summary(lines: set[ReadyLane]) -> list[ReadyLane]:
    if len(lines) <= NAMED:
        return list(lines)
    return list({(queue, None, priority) for queue, _, priority in lines})
