"""Health, in a few lines."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.insights import Health
from penstock.wording import counted, span

CAUSES_SHOWN = 10
STYLES = {"healthy": "bold green", "degraded": "bold yellow", "down": "bold red"}


def health_page(health: Health) -> RenderableType:
    """The word, what speaks against it, and the numbers."""
    lines = [Text(health.status, STYLES[health.status])]
    lines += [Text(f"  {cause.status}: {cause.told}") for cause in health.causes[:CAUSES_SHOWN]]
    if more := health.causes[CAUSES_SHOWN:]:
        checks = Counter(cause.check for cause in more)
        each = ", ".join(f"{number:,} of {check}" for check, number in checks.most_common())
        lines.append(Text(f"  and {len(more):,} more causes ({each}); --json has all of them"))
    if health.queues_left_out.number:
        lines.append(Text(f"  {health.queues_left_out} more queues were not looked at"))
    if health.workers_left_out:
        lines.append(Text(f"  {health.workers_left_out:,} more workers were not looked at"))
    lines.append(Text("  ".join(_numbers(health)), style.FAINT))
    return Group(*lines)


def _numbers(health: Health) -> list[str]:
    shown = [
        f"{health.pending} pending",
        f"{health.running} running",
        counted(health.workers, "worker"),
        f"{health.per_hour:,.0f} ended in the last hour",
    ]
    if health.mean_seconds is not None:
        shown.append(f"{span(health.mean_seconds)} each")
    if health.error_rate is not None:
        shown.append(f"{health.error_rate:.1%} failed")
    if health.last_processed is not None:
        ago = (datetime.now(UTC) - health.last_processed).total_seconds()
        shown.append(f"the last {span(max(ago, 0.0))} ago")
    return shown
