"""How many jobs of a queue may run at once, and how many more to fetch ahead."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from penstock.errors import ConfigError
from penstock.tasks.options import QUEUE_NAME, matching
from penstock.worker.timing import DEFAULT_TIMING

DEFAULT_SLOTS = 100
MOST_SLOTS = 10_000
# The mean length is that of about so many jobs.
NEWS = 8


ALLOWED = 'a queue, some of them, or their slots: "email", ["email", "reports"], {"email": 5}'


def slots_of(queues: Mapping[str, int] | Iterable[str] | str) -> dict[str, int]:
    """Queues and their slots as given: `"email"`, `["email", "documents"]`, `{"email": 5}`."""
    if isinstance(queues, str):
        queues = [queues]
    if not isinstance(queues, Iterable):
        raise ConfigError("queues", queues, ALLOWED)
    if not isinstance(queues, Mapping):
        queues = dict.fromkeys(map(_without_slots, queues), DEFAULT_SLOTS)
    given = dict(queues)
    for name, slots in given.items():
        matching("queue", name, QUEUE_NAME)
        if type(slots) is not int or not 1 <= slots <= MOST_SLOTS:
            raise ConfigError(f"slots of queue {name}", slots, f"1 to {MOST_SLOTS}")
    if not given:
        told = "at least one queue, or leave it out to serve all that are named"
        raise ConfigError("queues", queues, told)
    return given


def _without_slots(name: str) -> str:
    """A queue's name; with slots, as in the terminal, it would be another queue."""
    queue, _, slots = str(name).rpartition(":")
    if queue and slots.isdecimal():
        raise ConfigError("queues", name, f"slots in a mapping: {{{queue!r}: {slots}}}")
    return name


class Slots:
    """The slots of one queue, or of one limit. Fast jobs make it fetch ahead, slow ones do not."""

    def __init__(
        self, limit: int, ahead_most: int, ahead_seconds: float = DEFAULT_TIMING.ahead
    ) -> None:
        self.limit = limit
        self.used = 0
        self._ahead_most = ahead_most
        self._ahead_seconds = ahead_seconds
        self._rate = 0.0
        self._length = 0.0
        self._finished = 0
        self._since = time.monotonic()

    @property
    def free(self) -> int:
        return self.limit - self.used

    @property
    def ahead(self) -> int:
        """How many jobs to hold beyond the free slots, by how fast they have been going."""
        return min(self._ahead_most, self.soon)

    @property
    def soon(self) -> int:
        """How many jobs will be worked off in a moment, at the present rate.

        Not more than such jobs can be with these slots: many that end at once, perhaps because they
        were cancelled, are no sign of quick ones.
        """
        count = self._rate * self._ahead_seconds
        if self._length > self._ahead_seconds:
            count = min(count, self.limit * self._ahead_seconds / self._length)
        return int(count)

    def take(self) -> None:
        self.used += 1

    def give_back(self, seconds: float = 0.0, jobs: int = 1) -> None:
        """A job has ended, or several that shared the slot, after so long."""
        self.used -= 1
        self._finished += jobs
        self._length += (seconds / jobs - self._length) / NEWS

    def measure(self) -> None:
        """Once a claim: how many jobs a second have finished since the last one."""
        now = time.monotonic()
        elapsed = now - self._since
        if elapsed > 0.001:
            self._rate = (self._rate + self._finished / elapsed) / 2
            self._finished = 0
            self._since = now
