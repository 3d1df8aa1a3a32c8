"""Names of queues as labels of metrics: as many as a monitor bears, and one for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Whoever may enqueue may name a queue, and each name is a series in every metric.
MAX_QUEUE_LABELS: Final = 200
# No queue can have this name.
OTHER: Final = "(other)"


class QueueLabels:
    """The labels of one process: the first queues have their names, later ones share one label.

    A counter must not lose what it has counted, so a queue keeps its label.
    """

    def __init__(self, most: int = MAX_QUEUE_LABELS) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, queue: str) -> str:
        """The label of a queue: its name, or `(other)`."""
        if queue not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(queue)
        return queue


def labelled(queues: Iterable[str], first: Iterable[str], most: int = MAX_QUEUE_LABELS) -> set[str]:
    """Which of the queues bear their names at one moment: `first` those that the app knows, then by
    name, so that every process which sees the same queues chooses the same."""
    seen = set(queues)
    known = sorted(seen.intersection(first))
    return set([*known, *sorted(seen.difference(known))][:most])
