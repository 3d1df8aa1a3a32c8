"""What is set for queues, lanes, limits, plans, tenants and history, as the client answers it."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from penstock.job import State
from penstock.windows import Windows


class QueueSettings(Struct, frozen=True, kw_only=True):
    """What holds for a queue. `ageing` and `late_after` are seconds, `windows` None is always."""

    name: str
    fair: bool
    lane_key: str
    ageing: float | None
    windows: Windows | None
    late_after: float | None
    paused: bool


class LaneSettings(Struct, frozen=True, kw_only=True):
    """What holds for one lane of a queue; `weight` is how many jobs it gets in each turn."""

    queue: str
    lane: str
    weight: int
    windows: Windows | None
    late_after: float | None
    paused: bool


class Limit(Struct, frozen=True, kw_only=True):
    """What a key may take: how many run at once, how many start in a second and in a burst."""

    key: str
    slots: int | None
    rate: float | None
    burst: float | None


class Plan(Struct, frozen=True, kw_only=True):
    """What tenants pay for: a priority added to their jobs', and the weight of their lanes."""

    name: str
    priority: int
    weight: int
    late_after: float | None


class Tenant(Struct, frozen=True, kw_only=True):
    """What holds for a tenant."""

    name: str
    plan: str | None
    late_after: float | None


class Retention(Struct, frozen=True, kw_only=True):
    """How many days jobs that end in a state are kept; no queue or no tenant means any."""

    state: State
    days: int
    queue: str
    tenant: str


def with_windows(row: dict[str, Any]) -> dict[str, Any]:
    """The row, its windows read."""
    text = row["windows"]
    return row | {"windows": None if text is None else Windows.read(json.loads(text))}
