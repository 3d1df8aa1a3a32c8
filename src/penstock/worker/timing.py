"""How long the parts of a worker wait. What users may want to change is in `penstock.config`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.lifecycle import MAX_BACKOFF_S, MIN_BACKOFF_S
from penstock.outcome import MIN_PARK_DELAY_S


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Intervals in seconds. Tests shorten what they would otherwise wait for."""

    # Connections: processes that wait together do not all retry at once.
    connection_retry: float = 1.0

    # Claims: jobs that would be done within this time are fetched ahead, so that a round trip never
    # idles a worker.
    ahead: float = 0.05

    # Without notifications, a worker checks its rules this often.
    rules: float = 5.0

    # Limits: how long an unused grant is kept, after how long a refused one is asked for again, and
    # after how long a refused worker that has not asked again no longer waits.
    limit_idle: float = 2.0
    limit_retry: float = 1.0
    limit_patience: float = 3.0

    # Resources that take longer to open are opened while the worker already works, and their tasks
    # wait. What could not be opened is retried after `resources_retry`.
    resources_wait: float = 5.0
    resources_retry: float = 10.0

    # Jobs that nobody here can run come back after this at first.
    parked: float = MIN_PARK_DELAY_S

    # With many keys more groups of items are due than there are slots. A group that has found none
    # for this long goes back. Sooner, and items would come and go; later, and an idle worker could
    # have had them.
    items_wait: float = 5.0

    # How long a suspect that runs in this process keeps others from being marked; then one more
    # begins beside it. The time is random, so that no handler regularly crashes just after the next
    # mark.
    suspect_window: tuple[float, float] = (3.0, 6.0)

    # A drain waits this long for a batch whose row is locked. What it leaves, workers' folds
    # finish.
    batch_wait: float = 5.0

    # A step waits this long, in short tries, for a job whose row is locked.
    step_lock_wait: float = 10.0

    # The first and the longest pause before outcomes that could not be written are tried again.
    settle_retry: float = MIN_BACKOFF_S
    settle_retry_most: float = MAX_BACKOFF_S

    # The pauses before a child that died before its first job is tried again; after the last, none
    # is started for `children_pause`.
    child_retries: tuple[float, ...] = (0.0, 0.5, 2.0)
    children_pause: float = 10.0
    # How long an attempt waits for a child. Where the leader enforces its timeout, that counts from
    # the claim, with a grace that is longer than this.
    child_wait: float = 30.0
    # How long a child may take to read a new assignment, and a handler to begin, counted from when
    # the attempt began to wait.
    child_begin: float = 10.0
    handler_begin: float = 40.0


DEFAULT_TIMING = Timing()
