"""How long the parts of a worker wait. What users may want to change is in `penstock.config`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.lifecycle import MAX_BACKOFF_S, MIN_BACKOFF_S
from penstock.outcome import MIN_PARK_DELAY_S


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds. Tests shorten what they would otherwise wait for."""

    # Connections: many processes may wait together, and do not ask all at once.
    connection_retry: float = 1.0

    # Claims: what would be worked off within this time is fetched ahead, so that a round trip never
    # idles a worker.
    ahead: float = 0.05

    # Rules are looked at so often by a worker that is told nothing.
    rules: float = 5.0

    # Limits: a grant is kept for so long without use; what was refused is asked for again after so
    # long; who was refused and has not come back for so long does not wait any more.
    limit_idle: float = 2.0
    limit_retry: float = 1.0
    limit_patience: float = 3.0

    # Resources that take longer to open are opened while the worker already works; their tasks
    # wait. What could not be opened is tried again after so long.
    resources_wait: float = 5.0
    resources_retry: float = 10.0

    # Jobs that nobody here can run come back after so long at first.
    parked: float = MIN_PARK_DELAY_S

    # With many keys more groups of items are due than there are slots. One that has found none for
    # so long goes back: sooner, and they would come and go; later, and a worker that is idle could
    # have had them.
    items_wait: float = 5.0

    # How long a suspect that runs in this process keeps others from being marked; then one more
    # begins beside it. The time is random, so that no handler regularly crashes just after the next
    # mark.
    suspect_window: tuple[float, float] = (3.0, 6.0)

    # A drain waits for a batch whose row somebody holds; what it leaves, workers' folds finish.
    batch_wait: float = 5.0

    # A step asks for a job that somebody else holds for so long, a moment at a time.
    step_lock_wait: float = 10.0

    # Outcomes that could not be written are tried again after so long at first, and at most.
    settle_retry: float = MIN_BACKOFF_S
    settle_retry_most: float = MAX_BACKOFF_S

    # A child that dies before its first job is tried again after these, one after the other; then
    # none is started for so long.
    child_retries: tuple[float, ...] = (0.0, 0.5, 2.0)
    children_pause: float = 10.0
    # An attempt waits for a child for so long. Its timeout counts from its claim where it is looked
    # after from outside, with a grace that is longer than this.
    child_wait: float = 30.0
    # A child has so long to hear of what it is given, and the handler, counted from when the
    # attempt began to wait, to begin.
    child_begin: float = 10.0
    handler_begin: float = 40.0


DEFAULT_TIMING = Timing()
