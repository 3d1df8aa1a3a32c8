"""A reason why a job is not done yet."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal[
    "paused",
    "lane_paused",
    "window_closed",
    "no_worker",
    "other_tenants",
    "unknown_task",
    "bad_arguments",
    "missing_resource",
    "limit",
    "bucket_closed",
    "rate",
    "budget",
    "busy",
    "isolation",
    "in_line",
    "retry",
    "later",
    "overdue",
    "sleep",
    "poll",
    "event",
    "lost",
    "blocked",
]


class Wait(Struct, frozen=True):
    """One reason, and what to do about it."""

    kind: Kind
    message: str
