"""The whole queue on one screen."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.screens.job import progress_line
from penstock.cli.screens.lanes import lanes_table
from penstock.cli.screens.queues import queues_table
from penstock.cli.screens.workers import workers_table
from penstock.cli.words import ago, length, rate, share
from penstock.config import Database
from penstock.demo.summary import sparkline
from penstock.hosts import place
from penstock.insights import Count, FailedJob, Overview, RunningJob
from penstock.wording import counted

SPARKS = 30
HEADER = 3
# A section's title, its column names, and the empty line before it.
FRAME = 3
LEAST = 3


@dataclass(frozen=True, slots=True)
class Glance:
    """What one look gave: an overview, or the reason why there is none."""

    overview: Overview | None
    trouble: str | None = None


class Screen:
    """Draws one look after the other; remembers the pace of the last ones."""

    def __init__(self, database: Database) -> None:
        self._place = _place(database)
        self._paces: deque[float] = deque(maxlen=SPARKS)
        self._last: Overview | None = None

    def draw(self, glance: Glance) -> Picture:
        if glance.overview is not None:
            self._last = glance.overview
            self._paces.append(glance.overview.throughput[0].total.per_second)
        return Picture(self._place, tuple(self._paces), self._last, glance.trouble)


@dataclass(frozen=True, slots=True)
class Picture:
    """A look, ready to be drawn in whatever room there is."""

    place: str
    paces: tuple[float, ...]
    overview: Overview | None
    trouble: str | None

    def whole(self, width: int) -> RenderableType:
        """Everything, however long."""
        return self._drawn(width, rows=(1000, 1000, 1000, 1000))

    def fitted(self, width: int, height: int) -> RenderableType:
        """As much as fits: queues and workers first, running jobs take what is left."""
        if self.overview is None:
            return self._drawn(width, rows=(0, 0, 0, 0))
        seen = self.overview
        room = height - HEADER - 4 * FRAME - 1
        if seen.lanes is not None:
            room -= len(seen.lanes.lanes) + FRAME
        queues = min(len(seen.queues), max(LEAST, room // 3))
        workers = min(len(seen.workers), max(LEAST, room // 4))
        failures = min(len(seen.failures), max(LEAST, room // 4))
        running = max(room - queues - workers - failures, LEAST)
        return self._drawn(width, rows=(queues, workers, running, failures))

    def _drawn(self, width: int, rows: tuple[int, int, int, int]) -> RenderableType:
        parts: list[RenderableType] = [self._title(width)]
        if self.trouble:
            parts.append(Text(self.trouble, "bold red"))
        if self.overview is None:
            return Group(*parts)
        seen, (queues, workers, running, failures) = self.overview, rows
        parts += [self._pulse(seen), Text()]
        title = _cut(
            "queues", min(queues, len(seen.queues)), len(seen.queues), seen.queues_left_out
        )
        parts += [queues_table(seen.queues[:queues], width, title=title), Text()]
        if seen.lanes is not None:
            first = (
                ""
                if seen.lanes.following is None
                else f" of the first {seen.lanes.number.number:,}"
            )
            title = f"lanes of {seen.lanes.queue}, the largest{first}"
            parts += [lanes_table(seen.lanes, width, title=title), Text()]
        beyond = Count(seen.workers_left_out)
        title = _cut("workers", min(workers, len(seen.workers)), len(seen.workers), beyond)
        parts += [workers_table(seen.workers[:workers], width, title=title), Text()]
        parts += [_running(seen.running[:running], width), Text()]
        parts += [_failures(seen.failures[:failures], width)]
        return Group(*parts)

    def _title(self, width: int) -> Table:
        line = Table.grid(expand=width < 300)
        line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        line.add_column(justify="right", no_wrap=True)
        name = Text.assemble(("penstock ", "bold"), (self.place, style.FAINT))
        line.add_row(name, Text(f"  {datetime.now(UTC):%H:%M:%S} UTC", style.FAINT))
        return line

    def _pulse(self, seen: Overview) -> Text:
        now, minute = seen.throughput
        ready = Count.sum(queue.ready for queue in seen.queues)
        scheduled = Count.sum(queue.scheduled for queue in seen.queues)
        running = Count.sum(queue.running for queue in seen.queues)
        living = [worker for worker in seen.workers if worker.is_alive]
        lost = len(seen.workers) - len(living)
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(rate(now.total.per_second), "bold green")
        if len(self.paces) > 1:
            text.append(f" {sparkline(self.paces, SPARKS)}", "green")
        text.append(f"  {ready} ready", style.STATES["ready"])
        text.append(f"  {scheduled} scheduled", style.STATES["scheduled"])
        text.append(f"  {running} running", style.STATES["running"])
        blocked = Count.sum(queue.blocked for queue in seen.queues)
        text.append(f"  {blocked} blocked" if blocked.number else "", style.STATES["blocked"])
        late = Count.sum(queue.late for queue in seen.queues)
        text.append(f"  {late} late" if late.number else "", "red")
        text.append(f"  {counted(len(living), 'worker')}")
        text.append(f", {lost} lost" if lost else "", "bold red")
        failed = minute.total.failure_rate
        text.append(f"  last minute: {rate(minute.total.per_second)}")
        text.append(f", {share(failed)} failed", "red" if failed else style.FAINT)
        return text


def _cut(what: str, shown: int, seen: int, left_out: Count) -> str:
    """A title, which says how many there are if not all are shown."""
    found = Count.sum([Count(seen), left_out])
    return what if shown == found.number else f"{what}, {shown:,} of {found}"


def _running(jobs: Sequence[RunningJob], width: int) -> RenderableType:
    if not jobs:
        return style.nothing("Nothing runs.")
    sheet = style.Sheet(width, title="running, longest first")
    sheet.column("job")
    sheet.column("task", most=max(16, width // 4))
    sheet.column("queue", most=16)
    sheet.column("for", right=True)
    sheet.column("worker", most=24, above=95)
    sheet.column("progress", elastic=True)
    for job in jobs:
        sheet.row(
            job.id,
            job.task,
            job.queue,
            length(job.seconds),
            Text(job.worker or "?", "" if job.is_alive else "red"),
            "" if job.progress is None else progress_line(job.progress, width=16),
        )
    return sheet.table


def _failures(jobs: Sequence[FailedJob], width: int) -> RenderableType:
    if not jobs:
        return style.nothing("Nothing has failed.")
    sheet = style.Sheet(width, title="failed last")
    sheet.column("job")
    sheet.column("task", most=max(16, width // 4))
    sheet.column("when", right=True)
    sheet.column("of", elastic=True)
    for job in jobs:
        said = (job.error_message or "").partition("\n")[0]
        error = ": ".join(filter(None, (job.error_type, said)))
        sheet.row(job.id, job.task, ago(job.seconds_ago), Text(error or job.reason, "red"))
    return sheet.table


def _place(database: Database) -> str:
    """Which queue it is, without what may be a password."""
    where = "embedded Postgres" if database.url is None else place(database.url)
    return where if database.schema == "penstock" else f"{where}, schema {database.schema}"
