"""Wake workers without a NOTIFY for every commit.

A commit with a NOTIFY takes a lock that is shared by the whole server, so a busy producer must not
send one with each commit. The first enqueue after a quiet moment sends its own notification. All
that follow within the interval share another one.
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

NOTIFY_INTERVAL_S = 0.005
# How long a shared notification may take to reach the server. One that took longer is sent again,
# because the age of the jobs that it contains was too low.
DELIVERY_TIME_S = 0.25

# Queue, lane and priority that got jobs. A lane of None stands for many.
ReadyLane = tuple[str, str | None, int]
# A notification names up to this many lanes; beyond that, only their queues and priorities.
MAX_NAMED_LANES = 64
# Stands for all jobs that are due later. No real queue has an empty name.
SCHEDULED: ReadyLane = ("", "", 0)


class Wake:
    """Notify workers of new jobs: at once after a quiet moment, otherwise in shared messages."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self.reset_after_fork()
        reset_in_forks(self)

    def reset_after_fork(self) -> None:
        """Start without pending notifications.

        A forked child does this too, because the parent sends the pending ones.
        """
        self._last: dict[ReadyLane, float] = {}
        self._pending: set[ReadyLane] = set()
        self._due: float | None = None
        self._since = 0.0
        self._task: asyncio.Task[None] | None = None

    def should_notify_inline(self, requests: Sequence[AnyRequest]) -> bool:
        """Return whether the enqueue should send the NOTIFY itself.

        If not, call `notify_later` after its commit.
        """
        now = time.monotonic()
        lanes, due = _ready_lanes(requests)
        concerned = lanes if due is None else lanes | {SCHEDULED}
        if not self._is_sending and all(
            now - self._last.get(lane, -1.0) > NOTIFY_INTERVAL_S for lane in concerned
        ):
            self._remember(concerned, now)
            return True
        return False

    def notify_later(self, requests: Sequence[AnyRequest], stored: Stored, since: float) -> None:
        """Send a shared notification at the end of the interval, for a commit that sent none."""
        lanes, due = _ready_lanes(requests, stored)
        if not self._pending and self._due is None:
            self._since = since
        self._since = min(self._since, since)
        self._pending |= lanes
        if due is not None:
            self._due = due if self._due is None else min(self._due, due)
        self._send_soon()

    @property
    def _is_sending(self) -> bool:
        """Whether a shared notification is being sent, by a task of the running event loop."""
        task = self._task
        return task is not None and task.get_loop() is asyncio.get_running_loop()

    def _send_soon(self) -> None:
        if not self._is_sending and (self._pending or self._due is not None):
            self._task = asyncio.create_task(self._send_later(), name="penstock wake")

    def _remember(self, lanes: set[ReadyLane], now: float) -> None:
        if len(self._last) > 1000:
            self._last.clear()
        for lane in lanes:
            self._last[lane] = now

    async def _send_later(self) -> None:
        try:
            await asyncio.sleep(NOTIFY_INTERVAL_S)
            await self._send()
        except Exception as error:
            # Workers find the jobs a moment later, by polling.
            if not errors.is_lost(error):
                logger.exception(
                    "Workers could not be notified of new jobs. They find the jobs by polling."
                )
        finally:
            self._task = None
        self._send_soon()

    async def _send(self) -> None:
        lanes, self._pending = self._pending, set()
        due, self._due = self._due, None
        since = self._since
        try:
            await self._notify(lanes, due, since)
        except asyncio.CancelledError:
            # `close` sends it with the rest.
            self._pending |= lanes
            self._due = min((time for time in (due, self._due) if time is not None), default=None)
            self._since = since
            raise

    async def _notify(self, lanes: set[ReadyLane], due: float | None, since: float) -> None:
        pool, store = await self._connector.pool(), self._connector.store
        sent: set[ReadyLane] = {(queue, "", priority) for queue, _, priority in lanes}
        self._remember(sent if due is None else sent | {SCHEDULED}, time.monotonic())
        if lanes:
            await _send_with_age(since, lambda age: store.notify_ready(pool, _summary(lanes), age))
        if due is not None:
            await _send_with_age(since, lambda age: store.notify_due(pool, due - age))

    async def close(self, seconds: float) -> None:
        """Send pending notifications now. Give up after `seconds`."""
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


async def _send_with_age(since: float, send: Callable[[float], Awaitable[None]]) -> None:
    """Send a notification with the age of the oldest job at the time of delivery.

    If delivery takes longer than expected, that age was too low. The notification is then sent
    again with a higher age.
    """
    delivery_time = DELIVERY_TIME_S
    while True:
        began = time.monotonic()
        await send(began - since + delivery_time)
        taken = time.monotonic() - began
        if taken <= delivery_time:
            return
        delivery_time = 2 * taken


def _ready_lanes(
    requests: Sequence[AnyRequest], stored: Stored | None = None
) -> tuple[set[ReadyLane], float | None]:
    """Return the lanes that get ready jobs, and the seconds until the first delayed job is due.

    The seconds are None if no job is delayed.
    """
    lanes: set[ReadyLane] = set()
    due: float | None = None
    for options in {id(request.options): request.options for request in requests}.values():
        if options.delay or options.run_at:
            # The database compares an absolute time with its own clock: promotion runs at once.
            due = min(options.delay or 0.0, due if due is not None else float("inf"))
        if not options.delay:
            lanes.add((options.queue, "", options.priority))
    if stored is not None and stored.lanes is not None and stored.priorities is not None:
        lanes = {
            (request.options.queue, lane, priority)
            for request, lane, priority in zip(
                requests, stored.lanes, stored.priorities, strict=True
            )
            if not request.options.delay
        }
    return lanes, due


def _summary(lanes: set[ReadyLane]) -> list[ReadyLane]:
    if len(lanes) <= MAX_NAMED_LANES:
        return list(lanes)
    return list({(queue, None, priority) for queue, _, priority in lanes})
