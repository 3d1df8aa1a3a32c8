"""What a worker must know to take turns and keep to limits."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property

import msgspec
from msgspec import Struct


class QueueRule(Struct, frozen=True):
    """How the lanes of one queue are served."""

    name: str
    by_tenant: bool = False
    ageing: float | None = None
    open: bool = True
    changes_in: float | None = None


class LaneRule(Struct, frozen=True):
    """What holds for one lane of a queue."""

    queue: str
    lane: str
    weight: int = 1
    open: bool = True
    changes_in: float | None = None


class PlanRule(Struct, frozen=True):
    """How many turns the plan of a tenant gives to its lanes."""

    tenant: str
    weight: int


class Limit(Struct, frozen=True):
    """What may run at once with a key, and how many may start in a second."""

    key: str
    slots: int | None = None
    rate: float | None = None
    burst: float | None = None

    def covers(self, key: str) -> bool:
        return key.startswith(self.key[:-1])


class Rules(Struct, frozen=True, dict=True):
    """All settings that matter to a worker, as they stood when they were read."""

    version: int = 0
    queues: tuple[QueueRule, ...] = ()
    lanes: tuple[LaneRule, ...] = ()
    plans: tuple[PlanRule, ...] = ()
    limits: tuple[Limit, ...] = ()

    @cached_property
    def _exact(self) -> dict[str, Limit]:
        return {limit.key: limit for limit in self.limits}

    @cached_property
    def _patterns(self) -> list[Limit]:
        patterns = [limit for limit in self.limits if limit.key.endswith("*")]
        return sorted(patterns, key=lambda limit: -len(limit.key))

    def limit_of(self, key: str) -> Limit | None:
        """The limit that holds for a key: its own, or that of the longest pattern."""
        if (exact := self._exact.get(key)) is not None:
            return exact
        return next((pattern for pattern in self._patterns if pattern.covers(key)), None)

    @cached_property
    def changes_in(self) -> float | None:
        """In how many seconds, from when they were read, a window opens or closes."""
        times = [rule.changes_in for rule in self.queues]
        times += [rule.changes_in for rule in self.lanes]
        return min((time for time in times if time is not None), default=None)

    def weights(self, queue: str) -> Callable[[str], int]:
        """How many jobs a visit may take from each lane of a queue."""
        by_lane: dict[str, int] = {}
        if any(rule.name == queue and rule.by_tenant for rule in self.queues):
            by_lane = {plan.tenant: plan.weight for plan in self.plans}
        by_lane |= {rule.lane: rule.weight for rule in self.lanes if rule.queue == queue}
        if not by_lane:
            return _once
        return lambda turn: by_lane.get(turn, 1)

    def closed(self, queue: str) -> Collection[str]:
        """The lanes of a queue that are paused or outside of their windows."""
        return frozenset(rule.lane for rule in self.lanes if rule.queue == queue and not rule.open)


def _once(turn: str) -> int:
    return 1


read_rules = msgspec.json.Decoder(Rules).decode
