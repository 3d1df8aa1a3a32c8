"""`penstock top`: the queue at a glance, live."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import Reached, plain_errors, reached
from penstock.cli.framework import examples, spread
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output, terminal
from penstock.cli.screens.jobs import progress_line
from penstock.cli.screens.queues import lanes_table, queues_table, workers_table
from penstock.cli.tables import ago, length, rate, share
from penstock.config import Database
from penstock.demo.summary import sparkline
from penstock.errors import PenstockError
from penstock.hosts import place
from penstock.insights import Count, FailedJob, Overview, RunningJob
from penstock.wording import counted

FASTEST = 0.2


@examples("penstock top", "penstock top --every 5s", "penstock top --once --json")
@spread
def top(
    *,
    every: Annotated[
        float,
        typer.Option(
            parser=seconds, metavar="DURATION", help="How often to look.", show_default="2s"
        ),
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Draw one picture and leave.")] = False,
    where: Where,
    output: Output,
) -> None:
    """Watch the queue live; q leaves.

    Queues, the largest lanes of a fair one, workers, the jobs that run for longest and those that
    failed last. Without a terminal, and with --json, there is one picture.
    """
    if every < FASTEST:
        raise typer.BadParameter("--every is at least 200ms")
    if once or output.as_json or not _at_a_terminal():
        asyncio.run(_show_once(where, output))
    else:
        asyncio.run(_watch(where, every))


def _at_a_terminal() -> bool:

    return terminal().is_terminal


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
        name = Text.assemble(("penstock ", "bold"), (self.place, tables.FAINT))
        line.add_row(name, Text(f"  {datetime.now(UTC):%H:%M:%S} UTC", tables.FAINT))
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
        text.append(f"  {ready} ready", tables.STATES["ready"])
        text.append(f"  {scheduled} scheduled", tables.STATES["scheduled"])
        text.append(f"  {running} running", tables.STATES["running"])
        blocked = Count.sum(queue.blocked for queue in seen.queues)
        text.append(f"  {blocked} blocked" if blocked.number else "", tables.STATES["blocked"])
        late = Count.sum(queue.late for queue in seen.queues)
        text.append(f"  {late} late" if late.number else "", "red")
        text.append(f"  {counted(len(living), 'worker')}")
        text.append(f", {lost} lost" if lost else "", "bold red")
        failed = minute.total.failure_rate
        text.append(f"  last minute: {rate(minute.total.per_second)}")
        text.append(f", {share(failed)} failed", "red" if failed else tables.FAINT)
        return text


def _cut(what: str, shown: int, seen: int, left_out: Count) -> str:
    """A title, which says how many there are if not all are shown."""
    found = Count.sum([Count(seen), left_out])
    return what if shown == found.number else f"{what}, {shown:,} of {found}"


def _running(jobs: Sequence[RunningJob], width: int) -> RenderableType:
    if not jobs:
        return tables.nothing("Nothing runs.")
    sheet = tables.Sheet(width, title="running, longest first")
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
        return tables.nothing("Nothing has failed.")
    sheet = tables.Sheet(width, title="failed last")
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


LEAVE = frozenset("qQ\x04")  # the last one is Ctrl-D
ESCAPE = "\x1b"  # also the beginning of arrows and their like


async def _show_once(where: Where, output: Output) -> None:
    """One picture."""
    async with reached(where) as queue:
        overview = await queue.insights.overview()
    console = terminal()
    picture = Screen(queue.app.database).draw(Glance(overview))
    output.show(overview, lambda: picture.whole(console.width))


async def _watch(where: Where, every: float) -> None:
    """One picture after the other, until somebody presses q."""
    async with reached(where) as queue:
        console = terminal()
        leave = asyncio.Event()
        with _keys(leave), Live(console=console, screen=True, auto_refresh=False) as live:
            await _draw_until(leave, queue, every, console, live)


async def _draw_until(
    leave: asyncio.Event, queue: Reached, every: float, console: Console, live: Live
) -> None:
    screen = Screen(queue.app.database)
    while not leave.is_set():
        try:
            with plain_errors(queue.app.database):
                glance = Glance(await queue.insights.overview())
        except PenstockError as error:
            glance = Glance(None, str(error))
        live.update(screen.draw(glance).fitted(console.width, console.height), refresh=True)
        try:
            async with asyncio.timeout(every):
                await leave.wait()
        except TimeoutError:
            pass


@contextmanager
def _keys(leave: asyncio.Event) -> Iterator[None]:
    """Keys one by one, without being shown; as before at the end."""
    import termios
    import tty

    if not sys.stdin.isatty():
        yield
        return
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        keys = os.read(stdin, 64).decode(errors="ignore")
        if not keys or keys == ESCAPE or LEAVE & set(keys):
            leave.set()

    tty.setcbreak(stdin)
    loop.add_reader(stdin, pressed)
    try:
        yield
    finally:
        loop.remove_reader(stdin)
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
