"""Names of queues as labels of metrics: a bounded number, and one label for the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

# Whoever may enqueue may name a queue, and each name is a series in every metric.
MAX_QUEUE_LABELS: Final = 200
# No queue can have this name.
OTHER: Final = "(other)"


class QueueLabels:
    """The labels of one process: declared queues and the first `most` others have their own.

    Later queues share one label. A counter must not lose what it has counted, so a queue keeps its
    label, unless it is declared later.
    """

    def __init__(
        self, declared: Callable[[], Collection[str]] = frozenset, most: int = MAX_QUEUE_LABELS
    ) -> None:
        self._declared = declared
        self._most = most
        self._known: set[str] = set()
        self._others = 0

    def of(self, queue: str) -> str:
        """The label of a queue: its name, or `(other)`."""
        if queue in self._known:
            return queue
        if queue not in self._declared():
            if self._others >= self._most:
                return OTHER
            self._others += 1
        self._known.add(queue)
        return queue


def labelled(
    queues: Iterable[str], declared: Iterable[str], most: int = MAX_QUEUE_LABELS
) -> set[str]:
    """The queues that have a label of their own at one moment: all that are declared, and the first
    `most` others by name, so that every process that sees the same queues chooses the same ones."""
    seen = set(queues)
    known = seen.intersection(declared)
    return known.union(sorted(seen - known)[:most])
