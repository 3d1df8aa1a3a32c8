"""Batches: a line each, or one of them with its bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import ago, at, length, rate
from penstock.groups.batches import BatchStatus

STATES = {"open": "magenta", "running": "yellow", "finished": "green"}
BAR = 40


def batches_table(batches: Sequence[BatchStatus], width: int) -> RenderableType:
    """Batches as a table: how far each is, and what it came to."""
    if not batches:
        return style.nothing("There are no such batches.")
    now = datetime.now(UTC)
    sheet = style.Sheet(width)
    sheet.column("id")
    sheet.column("state")
    sheet.column("done", right=True)
    sheet.column("failed", right=True)
    sheet.column("cancelled", right=True, needed=any(each.cancelled for each in batches))
    sheet.column("running", right=True, above=80)
    sheet.column("rate", right=True, above=80)
    sheet.column("to go", right=True)
    sheet.column("opened", right=True)
    sheet.column("tenant", most=20, above=100, needed=any(each.tenant for each in batches))
    sheet.column("name", elastic=True)
    for each in batches:
        sheet.row(
            each.id,
            _state(each),
            f"{each.done:,}/{each.total:,}",
            _number(each.failed, "bold red"),
            _number(each.cancelled),
            _number(each.running, style.STATES["running"]),
            _rate(each),
            _to_go(each),
            ago((now - each.created_at).total_seconds()),
            each.tenant,
            each.name or "",
        )
    return sheet.table


def batch_page(seen: BatchStatus) -> RenderableType:
    """All that is known about a batch, the most wanted first."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=style.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _named(seen):
        if value is not None and value != "":
            facts.add_row(f"  {name}", value)
    return Group(_title(seen), _bar(seen), facts)


def _title(seen: BatchStatus) -> Text:
    name = (f"  {seen.name}", "bold cyan") if seen.name else ""
    return Text.assemble((f"Batch {seen.id}", "bold"), name, "  ", _state(seen))


def _bar(seen: BatchStatus) -> Table:
    line = Table.grid(padding=(0, 1))
    done = seen.done / seen.total if seen.total else float(seen.is_finished)
    told = f"{seen.done:,} of {seen.total:,}" + (" so far" if seen.state == "open" else "")
    line.add_row(ProgressBar(1.0, done, width=BAR), f"{done:.0%}", told)
    return line


def _named(seen: BatchStatus) -> Iterator[tuple[str, RenderableType | None]]:
    yield "pending", f"{seen.pending:,}, of which {seen.running:,} running"
    yield "completed", f"{seen.completed:,}"
    yield "failed", _number(seen.failed, "bold red") if seen.failed else None
    yield "cancelled", f"{seen.cancelled:,}" if seen.cancelled else None
    if seen.pending:
        yield "rate", _rate(seen)
        yield "to go", _to_go(seen) or "unknown"
    yield "tenant", seen.tenant
    yield "opened", f"{at(seen.created_at)} UTC"
    for name in ("closed", "cancelled", "finished"):
        moment: datetime | None = getattr(seen, f"{name}_at")
        yield name, None if moment is None else f"{at(moment)} UTC"
    for name in ("success", "failure", "end"):
        job: str | None = getattr(seen, f"{name}_job")
        yield f"on {name}", None if job is None else f"job {job}"
    yield "meta", msgspec.json.encode(seen.meta).decode() if seen.meta else None


def _state(seen: BatchStatus) -> Text:
    given_up = " (cancelled)" if seen.cancelled_at is not None else ""
    return Text(seen.state + given_up, STATES[seen.state])


def _number(number: int, colour: str = "") -> Text:
    return Text(f"{number:,}", colour if number else style.FAINT)


def _rate(seen: BatchStatus) -> str:
    return rate(seen.rate) if seen.pending and seen.rate > 0 else ""


def _to_go(seen: BatchStatus) -> str:
    return length(seen.eta) if seen.pending and seen.eta is not None else ""
