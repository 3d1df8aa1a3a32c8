"""Slots of a queue or a limit: how many jobs may run at once, and how many more to fetch ahead."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from penstock.errors import ConfigError
from penstock.tasks.options import QUEUE_NAME, check_name
from penstock.worker.timing import DEFAULT_TIMING

DEFAULT_SLOTS = 100
MAX_SLOTS = 10_000
# The mean length of a job is taken over about this many jobs.
AVERAGED_JOBS = 8


ALLOWED_QUEUES = (
    'a queue, some of them, or their slots: "email", ["email", "reports"], {"email": 5}'
)


def parse_queues(queues: Mapping[str, int] | Iterable[str] | str) -> dict[str, int]:
    """Return queues and their slots from `"email"`, `["email", "documents"]` or `{"email": 5}`."""
    if isinstance(queues, str):
        queues = [queues]
    if not isinstance(queues, Iterable):
        raise ConfigError("queues", queues, ALLOWED_QUEUES)
    if not isinstance(queues, Mapping):
        queues = dict.fromkeys(map(_check_queue_name, queues), DEFAULT_SLOTS)
    slots_by_queue = dict(queues)
    for name, slots in slots_by_queue.items():
        check_name("queue", name, QUEUE_NAME)
        if type(slots) is not int or not 1 <= slots <= MAX_SLOTS:
            raise ConfigError(f"slots of queue {name}", slots, f"1 to {MAX_SLOTS}")
    if not slots_by_queue:
        allowed = "at least one queue, or leave it out to serve all that are named"
        raise ConfigError("queues", queues, allowed)
    return slots_by_queue


def _check_queue_name(name: str) -> str:
    """Return a queue's name. Refuse the terminal's form `email:5`, which would be another queue."""
    queue, _, slots = str(name).rpartition(":")
    if queue and slots.isdecimal():
        raise ConfigError("queues", name, f"slots in a mapping: {{{queue!r}: {slots}}}")
    return name


class Slots:
    """The slots of one queue or limit.

    While jobs are fast, the worker fetches more jobs than it has free slots.
    """

    def __init__(
        self, limit: int, max_ahead: int, ahead_seconds: float = DEFAULT_TIMING.ahead
    ) -> None:
        self.limit = limit
        self.used = 0
        self._max_ahead = max_ahead
        self._ahead_seconds = ahead_seconds
        self._jobs_per_s = 0.0
        self._mean_seconds = 0.0
        self._finished = 0
        self._measured_at = time.monotonic()

    @property
    def free(self) -> int:
        return self.limit - self.used

    @property
    def ahead(self) -> int:
        """How many jobs to prefetch beyond the free slots, given how fast jobs have been ending."""
        return min(self._max_ahead, self.soon)

    @property
    def soon(self) -> int:
        """How many jobs will end in the next moment, at the present rate.

        The number is not more than these slots can do. Many jobs that end at once, perhaps because
        they were cancelled, do not show that jobs are quick.
        """
        count = self._jobs_per_s * self._ahead_seconds
        if self._mean_seconds > self._ahead_seconds:
            count = min(count, self.limit * self._ahead_seconds / self._mean_seconds)
        return int(count)

    def take(self) -> None:
        self.used += 1

    def give_back(self, seconds: float = 0.0, jobs: int = 1) -> None:
        """Free the slot of a job that took these seconds, or of a call that several jobs shared."""
        self.used -= 1
        self._finished += jobs
        self._mean_seconds += (seconds / jobs - self._mean_seconds) / AVERAGED_JOBS

    def measure(self) -> None:
        """Measure how many jobs a second have ended since the last call.

        Each claim calls this once.
        """
        now = time.monotonic()
        elapsed = now - self._measured_at
        if elapsed > 0.001:
            self._jobs_per_s = (self._jobs_per_s + self._finished / elapsed) / 2
            self._finished = 0
            self._measured_at = now
