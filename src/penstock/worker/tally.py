"""What the attempts of a worker came to, counted."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.outcome import DONE, Transition
from penstock.store import Settlement


class Tally:
    """Settled attempts by what became of their jobs. True counts: only what the database took."""

    def __init__(self) -> None:
        self.completed = 0
        self.failed = 0
        self.cancelled = 0
        self.retried = 0
        self.snoozed = 0
        self.blocked = 0
        self.parked = 0
        self.released = 0
        self.refused = 0
        self.unwritten = 0

    def add(self, batch: Sequence[Settlement]) -> None:
        others = [one.transition for one in batch if one.transition is not DONE]
        self.completed += len(batch) - len(others)
        for transition in others:
            name = word_of(transition)
            setattr(self, name, getattr(self, name) + 1)

    @property
    def settled(self) -> int:
        """Attempts that ran and were settled, whatever they came to."""
        ended = self.completed + self.failed + self.cancelled
        return ended + self.retried + self.snoozed + self.blocked

    def as_dict(self) -> dict[str, int]:
        return dict(vars(self))

    def __repr__(self) -> str:
        parts = [f"{count} {word}" for word, count in vars(self).items() if count]
        return f"<Tally {', '.join(parts) or 'nothing'}>"


def word_of(transition: Transition) -> str:
    """What an attempt came to, in a word."""
    if transition.state in ("completed", "failed", "cancelled", "blocked"):
        return transition.state
    if transition.stuck:
        return "parked"
    if transition.counts_failure:
        return "retried"
    return "snoozed" if transition.delay else "released"
