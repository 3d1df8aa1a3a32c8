"""What happens in a process, as values to subscribe to.

    app.events.subscribe(JobFinished, lambda event: print(event.job_id, event.state))

Subscribers are called at once, in the worker's loop: they must be quick. Only LoopStalled comes
from the heartbeat's thread, since it is the loop that has stalled, and CallsDropped from whatever
thread has noticed. One that raises is logged and hurts nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

logger = logging.getLogger("penstock.events")


class Event(Struct, frozen=True):
    """The root of all events."""


class JobsEnqueued(Event, frozen=True):
    """Jobs were stored by this process, those left out that were there before.

    In a transaction of the caller's own they are stored once that is committed.
    """

    queue: str
    task: str
    count: int


class JobsClaimed(Event, frozen=True):
    queue: str
    count: int


class JobFinished(Event, frozen=True):
    """An attempt was settled: `state` is where its job is now.

    `outcome` is what the attempt came to: completed, failed, cancelled, retried, snoozed, blocked,
    parked or released. `waited` is from being ready to its beginning, by this machine's clock.
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
    """The child process of an isolated attempt died: `cause` is the error's type."""

    job_id: str
    task: str
    attempt: int
    cause: str


class SettleRefused(Event, frozen=True):
    """A late write of an attempt that no longer owns its job. `cancelled` is no fault."""

    job_id: str
    task: str
    attempt: int
    answer: str


class JobsRescued(Event, frozen=True):
    count: int
    failed: int


class LoopStalled(Event, frozen=True):
    """A handler has blocked the worker's event loop."""

    seconds: float
    task: str | None
    job_id: str | None


class LeaseTaken(Event, frozen=True):
    lease: int


class LeaseLapsed(Event, frozen=True):
    """The lease is gone: everything that ran under it is stopped, a new one is taken."""

    lease: int
    running: int


class DatabaseGone(Event, frozen=True):
    service: str
    error: str


class DatabaseBack(Event, frozen=True):
    seconds: float


class LeaderChanged(Event, frozen=True):
    lease: int
    leads: bool
    role: str


class CallsDropped(Event, frozen=True):
    """A local pool has dropped so many calls since it last said so, at most once a minute."""

    pool: str
    count: int


class WorkerStopping(Event, frozen=True):
    """A phase of a stop begins: `running` jobs are waited for, in the phase "pool" calls."""

    phase: str
    running: int


E = TypeVar("E", bound=Event)


class Events:
    """Who wants to know what. Costs nothing where nobody listens."""

    def __init__(self) -> None:
        self._subscribers: dict[type[Event], list[Callable[[Any], object]]] = {}

    def subscribe(self, kind: type[E], call: Callable[[E], object]) -> Callable[[], None]:
        """Call on each event of a kind; returns what ends the subscription."""
        calls = self._subscribers.setdefault(kind, [])
        calls.append(call)
        return lambda: calls.remove(call)

    def wanted(self, kind: type[Event]) -> bool:
        """Whether anybody listens: lets hot paths skip making the event."""
        return bool(self._subscribers.get(kind))

    def emit(self, event: Event) -> None:
        for call in tuple(self._subscribers.get(type(event), ())):
            try:
                call(event)
            except Exception:
                logger.exception("A subscriber of %s failed.", type(event).__name__)
