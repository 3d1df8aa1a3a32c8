"""The limits: a line for each key."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import length, rate
from penstock.insights import LimitInsight, Limits

WORKERS_SHOWN = 3


def limits_table(found: Limits, width: int) -> RenderableType:
    """Limits as a table: what may run and begin, who has it, and what waits."""
    limits = found.limits
    if not limits:
        return style.nothing("There are no limits. Set one: penstock limits set KEY --slots 10")
    has_slots = any(limit.slots is not None or limit.granted for limit in limits)
    has_rate = any(limit.rate is not None for limit in limits)
    now = datetime.now(UTC)
    sheet = style.Sheet(width, fills=has_slots)
    sheet.column("key", most=max(16, width // 4))
    sheet.column("", needed=any(mark(limit, now) for limit in limits))
    sheet.column("slots", right=True, needed=has_slots)
    sheet.column("ready", right=True)
    sheet.column("rate", right=True, needed=has_rate)
    sheet.column("level", right=True, needed=has_rate)
    sheet.column("held by", elastic=True, needed=has_slots)
    for limit in limits:
        sheet.row(
            limit.key,
            Text(mark(limit, now), "yellow"),
            _slots(limit),
            _ready(limit),
            "" if limit.rate is None else rate(limit.rate),
            _level(limit),
            Text(_workers(limit), style.FAINT),
        )
    return sheet.table


def mark(limit: LimitInsight, now: datetime) -> str:
    """What is special about a key."""
    if limit.closed_until is not None:
        return f"closed for {length((limit.closed_until - now).total_seconds())}"
    if limit.is_shut:
        return "none runs"
    return "each key" if limit.is_pattern else "" if limit.rule else "no limit"


def _slots(limit: LimitInsight) -> Text:
    if limit.slots is None:
        return Text(str(limit.granted or ""))
    if limit.is_pattern:
        return Text(f"{limit.slots:,}")
    colour = "yellow" if limit.is_full else "" if limit.granted else style.FAINT
    return Text(f"{limit.granted:,}/{limit.slots:,}", colour)


def _ready(limit: LimitInsight) -> Text:
    if limit.ready is None or not limit.ready.number:
        return Text("")
    holds = limit.wanting or limit.is_shut or limit.closed_until or limit.refills_in != 0
    return Text(str(limit.ready), "yellow" if holds else "")


def _level(limit: LimitInsight) -> Text:
    if limit.burst is None:
        return Text("")
    burst = f"{limit.burst:,.1f}".removesuffix(".0")
    if limit.level is None:
        return Text(burst)
    # What is there in part cannot begin yet.
    level = 0 if limit.closed_until else math.floor(limit.level + 1e-9)
    return Text(f"{level:,}/{burst}", "yellow" if level < 1 else "")


def _workers(limit: LimitInsight) -> str:
    holders = [f"{each.worker} ({each.slots})" for each in limit.workers if each.slots]
    more = len(holders) - WORKERS_SHOWN
    shown = ", ".join(holders[:WORKERS_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
