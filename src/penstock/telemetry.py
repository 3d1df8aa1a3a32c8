"""Notifications about what happens in this process, for your metrics and alerts.

    app.events.subscribe(JobFinished, lambda event: print(event.job_id, event.state))

Subscribers are called at once in the worker's event loop, so they must be quick. Two events come
from other threads. LoopStalled comes from the heartbeat thread, because the loop itself has
stalled. CallsDropped comes from the thread that dropped the call. An exception of a subscriber is
logged and affects nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

logger = logging.getLogger("penstock.events")


class Event(Struct, frozen=True):
    """The base class of all events."""


class JobsEnqueued(Event, frozen=True):
    """This process enqueued jobs. Duplicates that were skipped are not counted.

    If the caller enqueued them in its own transaction, this event comes before the commit.
    """

    queue: str
    task: str
    count: int


class JobsClaimed(Event, frozen=True):
    """The worker claimed jobs of one queue."""

    queue: str
    count: int


class JobFinished(Event, frozen=True):
    """An attempt was settled. `state` is the job's new state.

    `outcome` is one of completed, failed, cancelled, retried, snoozed, blocked, parked and
    released. `seconds` is how long the attempt ran. `waited` is how many seconds the job was ready
    before the attempt began, by this machine's clock.
    """

    job_id: str
    task: str
    queue: str
    attempt: int
    state: str
    reason: str | None
    seconds: float
    outcome: str
    waited: float


class ChildDied(Event, frozen=True):
    """A child process died while it ran an isolated job. `cause` is the type of the error."""

    job_id: str
    task: str
    attempt: int
    cause: str


class SettleRefused(Event, frozen=True):
    """The database refused an outcome, because the attempt no longer owns its job.

    `answer` says why. If it is "cancelled", somebody cancelled the job, and all is well.
    """

    job_id: str
    task: str
    attempt: int
    answer: str


class JobsRescued(Event, frozen=True):
    """Jobs of lost workers were put back in their queues, or failed after too many losses.

    `failed` of the `count` jobs have failed.
    """

    count: int
    failed: int


class LoopStalled(Event, frozen=True):
    """A handler blocks the worker's event loop. `task` and `job_id` are None if unknown."""

    seconds: float
    task: str | None
    job_id: str | None


class LeaseTaken(Event, frozen=True):
    """The worker has a lease and may claim jobs."""

    lease: int


class LeaseLapsed(Event, frozen=True):
    """The worker lost its lease. It stops the `running` jobs under it and takes a new lease."""

    lease: int
    running: int


class DatabaseGone(Event, frozen=True):
    """The database does not answer, or takes no writes. `service` is the first to notice."""

    service: str
    error: str


class DatabaseBack(Event, frozen=True):
    """The database serves again, after an outage of `seconds`."""

    seconds: float


class LeaderChanged(Event, frozen=True):
    """This worker became the leader of a role, or stopped being the leader."""

    lease: int
    leads: bool
    role: str


class CallsDropped(Event, frozen=True):
    """A local pool dropped `count` calls since its last such event. Sent at most once a minute."""

    pool: str
    count: int


class WorkerStopping(Event, frozen=True):
    """A phase of the worker's stop begins.

    `running` is how many jobs the worker waits for, or how many calls of local pools in the phase
    "pool".
    """

    phase: str
    running: int


E = TypeVar("E", bound=Event)


class Events:
    """Passes events to their subscribers. An event without subscribers costs nothing."""

    def __init__(self) -> None:
        self._subscribers: dict[type[Event], list[Callable[[Any], object]]] = {}

    def subscribe(self, kind: type[E], call: Callable[[E], object]) -> Callable[[], None]:
        """Call a function with each event of a class. Call the returned function to unsubscribe."""
        calls = self._subscribers.setdefault(kind, [])
        calls.append(call)
        return lambda: calls.remove(call)

    def has_subscribers(self, kind: type[Event]) -> bool:
        """Return whether this event has subscribers. If not, hot paths need not make the event."""
        return bool(self._subscribers.get(kind))

    def emit(self, event: Event) -> None:
        for call in tuple(self._subscribers.get(type(event), ())):
            try:
                call(event)
            except Exception:
                logger.exception("A subscriber of %s failed.", type(event).__name__)
