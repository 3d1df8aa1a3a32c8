"""Describe limits: what each key allows, what is in use, and which workers wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from penstock.insights.counts import Count
from penstock.store.insights import Row


class Holder(Struct, frozen=True, kw_only=True):
    """A worker that holds slots of a limit. `wanted` is how many slots it wants in total."""

    worker: str
    slots: int
    wanted: int

    @property
    def waits(self) -> bool:
        return self.wanted > self.slots


class LimitInsight(Struct, frozen=True, kw_only=True):
    """The present state of one key or pattern: its limit, and the jobs and workers under it."""

    key: str
    rule: str | None
    """The limit that applies: the key itself, or a pattern. None if it has been removed."""
    slots: int | None
    """How many jobs may run at once."""
    granted: int
    """How many of these slots workers hold."""
    wanting: int
    """How many more slots they want."""
    ready: Count | None
    """How many ready jobs the limit applies to, for a pattern those of all its keys. None if they
    were not counted."""
    workers: tuple[Holder, ...]
    rate: float | None
    """How many jobs may start, or units be spent, in a second."""
    burst: float | None
    level: float | None
    """How many may start at once now, unless it is closed. It is below 0 if more was spent than
    was left."""
    closed_until: datetime | None

    @property
    def is_pattern(self) -> bool:
        return self.key.endswith("*")

    @property
    def is_full(self) -> bool:
        return self.slots is not None and self.granted >= self.slots

    @property
    def is_shut(self) -> bool:
        """Whether the limit has 0 slots, so that no job runs."""
        return self.slots == 0

    @property
    def refills_in(self) -> float | None:
        """Seconds until the rate lets one more job start; 0 if it may now, None if it never may."""
        if self.rate is None or self.level is None or self.level >= 1:
            return 0.0
        return (1 - self.level) / self.rate if self.rate else None


class Limits(Struct, frozen=True, kw_only=True):
    """A page of limits. Those that hold up jobs come first."""

    limits: tuple[LimitInsight, ...]
    number: Count
    after: str | None = None
    """Where the next page begins; None on the last."""


_holders = msgspec.json.Decoder(tuple[Holder, ...]).decode


def limits_from(rows: Sequence[Row], limit: int) -> Limits:
    """Build a page from the rows of `get_limits`, which returned at most `limit` rows."""
    number = rows[0]["keys"] if rows else 0
    last = rows[-1]["key"] if rows and len(rows) == limit < number else None
    return Limits(limits=tuple(_limit(row) for row in rows), number=Count(number), after=last)


def _limit(row: Row) -> LimitInsight:
    del row["keys"]
    is_cut, jobs = row.pop("is_cut"), row["ready"]
    ready = None if jobs is None else Count(jobs, not is_cut)
    return LimitInsight(**row | {"workers": _holders(row["workers"]), "ready": ready})
