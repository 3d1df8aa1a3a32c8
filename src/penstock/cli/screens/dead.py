"""Dead letters: a line each, or a line for those that failed alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import ago
from penstock.groups.failed import DeadSummary
from penstock.job import Job

NONE = "There are no such dead letters."
ROOMY = 120


def dead_table(jobs: Sequence[Job], width: int) -> RenderableType:
    """Failed jobs as a table; columns that would be empty are left out."""
    if not jobs:
        return style.nothing(NONE)
    now = datetime.now(UTC)
    sheet = style.Sheet(width)
    sheet.column("id")
    sheet.column("task", most=max(16, width // 4))
    sheet.column("reason", most=16)
    sheet.column("failed", right=True)
    sheet.column("tries", right=True)
    sheet.column("queue", most=16, above=ROOMY)
    sheet.column("tenant", most=20, above=ROOMY, needed=any(job.tenant for job in jobs))
    sheet.column("subject", most=24, above=ROOMY, needed=any(job.subject for job in jobs))
    sheet.column("last error", elastic=True)
    for job in jobs:
        sheet.row(
            job.id,
            job.task,
            job.reason or "",
            _since(job.finished_at, now),
            str(job.attempt),
            job.queue,
            job.tenant,
            job.subject or "",
            _error(*((job.last_error.type, job.last_error.message) if job.last_error else ())),
        )
    return sheet.table


def groups_table(summary: DeadSummary, width: int) -> RenderableType:
    """Those that failed alike as a line, the most first."""
    if not summary.groups:
        return style.nothing(NONE)
    now = datetime.now(UTC)
    sheet = style.Sheet(width)
    sheet.column("jobs", right=True)
    sheet.column("task", most=max(16, width // 4))
    sheet.column("reason", most=16, above=60)
    sheet.column("first failed", right=True, above=80)
    sheet.column("last failed", right=True)
    sheet.column("such as", right=True)
    sheet.column("last error", elastic=True)
    for group in summary.groups:
        sheet.row(
            f"{group.number:,}",
            group.task,
            group.reason,
            _since(group.first_at, now),
            _since(group.last_at, now),
            group.example,
            _error(group.error, group.message),
        )
    return sheet.table


def _since(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else ago((now - moment).total_seconds())


def _error(kind: str | None = None, message: str | None = None) -> Text:
    said = (message or "").partition("\n")[0]
    return Text(": ".join(filter(None, (kind, said))), "red")
