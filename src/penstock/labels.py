"""Queue names as labels of metrics: a limited number of them, and one label for all others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

# Anyone who may enqueue may invent a queue's name, and each name is a series in every metric.
MAX_QUEUE_LABELS: Final = 200
# No queue can have this name.
OTHER: Final = "(other)"


class QueueLabels:
    """Gives a label of its own to each declared queue, and to the first `limit` other queues.

    Later queues share one label. A queue keeps its label, so that no counter loses what it has
    counted. Only a queue that is declared later changes from the shared label to its own.
    """

    def __init__(
        self, declared: Callable[[], Collection[str]] = frozenset, limit: int = MAX_QUEUE_LABELS
    ) -> None:
        self._declared = declared
        self._limit = limit
        self._known: set[str] = set()
        self._others = 0

    def label_of(self, queue: str) -> str:
        """Return the label of a queue: its name, or `(other)`."""
        if queue in self._known:
            return queue
        if queue not in self._declared():
            if self._others >= self._limit:
                return OTHER
            self._others += 1
        self._known.add(queue)
        return queue


def select_labelled(
    queues: Iterable[str], declared: Iterable[str], limit: int = MAX_QUEUE_LABELS
) -> set[str]:
    """Return the queues that get a label of their own: all declared queues, and `limit` others.

    The other queues are the first in the order of names, so that all processes that see the same
    queues choose the same.
    """
    names = set(queues)
    labelled = names.intersection(declared)
    return labelled.union(sorted(names - labelled)[:limit])
