"""The settings that a worker needs: fair queues, weights of lanes, opening hours and limits."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property

import msgspec
from msgspec import Struct


class QueueRule(Struct, frozen=True):
    """How workers serve one queue.

    `changes_in` is how many seconds after the rules were read the queue opens or closes. None means
    never.
    """

    name: str
    by_tenant: bool = False
    ageing: float | None = None
    open: bool = True
    changes_in: float | None = None


class LaneRule(Struct, frozen=True):
    """The settings of one lane of a queue."""

    queue: str
    lane: str
    weight: int = 1
    open: bool = True
    changes_in: float | None = None


class PlanRule(Struct, frozen=True):
    """The weight that the plan of a tenant gives to its lanes."""

    tenant: str
    weight: int


class LimitRule(Struct, frozen=True):
    """The limit of a key: how many jobs run at once, and how many start per second."""

    key: str
    slots: int | None = None
    rate: float | None = None
    burst: float | None = None

    def covers(self, key: str) -> bool:
        return key.startswith(self.key[:-1])


class Rules(Struct, frozen=True, dict=True):
    """All settings that matter to a worker, as of one version."""

    version: int = 0
    queues: tuple[QueueRule, ...] = ()
    lanes: tuple[LaneRule, ...] = ()
    plans: tuple[PlanRule, ...] = ()
    limits: tuple[LimitRule, ...] = ()

    @cached_property
    def _exact(self) -> dict[str, LimitRule]:
        return {limit.key: limit for limit in self.limits}

    @cached_property
    def _patterns(self) -> list[LimitRule]:
        patterns = [limit for limit in self.limits if limit.key.endswith("*")]
        return sorted(patterns, key=lambda limit: -len(limit.key))

    def limit_of(self, key: str) -> LimitRule | None:
        """Return the limit of the key itself, or of the longest pattern that matches it.

        Return None if there is neither.
        """
        if (exact := self._exact.get(key)) is not None:
            return exact
        return next((pattern for pattern in self._patterns if pattern.covers(key)), None)

    @cached_property
    def changes_in(self) -> float | None:
        """How many seconds after the rules were read the next queue or lane opens or closes.

        None means never.
        """
        times = [rule.changes_in for rule in self.queues]
        times += [rule.changes_in for rule in self.lanes]
        return min((time for time in times if time is not None), default=None)

    def weights(self, queue: str) -> Callable[[str], int]:
        """Return a function that says how many jobs a worker takes from a lane in each round."""
        by_lane: dict[str, int] = {}
        if any(rule.name == queue and rule.by_tenant for rule in self.queues):
            by_lane = {plan.tenant: plan.weight for plan in self.plans}
        by_lane |= {rule.lane: rule.weight for rule in self.lanes if rule.queue == queue}
        if not by_lane:
            return _equal_weight
        return lambda lane: by_lane.get(lane, 1)

    def closed(self, queue: str) -> Collection[str]:
        """Return the lanes of a queue that are paused or outside of their opening hours."""
        return frozenset(rule.lane for rule in self.lanes if rule.queue == queue and not rule.open)


def _equal_weight(lane: str) -> int:
    return 1


read_rules = msgspec.json.Decoder(Rules).decode
