"""`penstock top`: the state of the queue, live."""

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
from penstock.cli.database import OpenQueue, explain_database_errors, open_queue
from penstock.cli.framework import examples, expand_options
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output, terminal
from penstock.cli.screens.jobs import progress_line
from penstock.cli.screens.queues import lanes_table, queues_table, workers_table
from penstock.cli.tables import format_age, format_duration, format_percentage, format_rate
from penstock.config import Database
from penstock.demo.summary import sparkline
from penstock.errors import PenstockError
from penstock.hosts import place
from penstock.insights import Count, FailedJob, Overview, RunningJob
from penstock.wording import counted

MIN_INTERVAL_S = 0.2

SPARKLINE_LENGTH = 30
HEADER_LINES = 3
# A section has a title, column names, and an empty line before it.
LINES_AROUND_SECTION = 3
MIN_ROWS = 3
QUIT_KEYS = frozenset("qQ\x04")  # \x04 is Ctrl-D.
ESCAPE = "\x1b"  # A lone escape is the Esc key; arrow keys only begin with it.


@examples("penstock top", "penstock top --every 5s", "penstock top --once --json")
@expand_options
def top(
    *,
    every: Annotated[
        float,
        typer.Option(
            parser=parse_duration, metavar="DURATION", help="How often to look.", show_default="2s"
        ),
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Draw one picture and leave.")] = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Watch the queue live; q leaves.

    Queues, the largest lanes of a fair one, workers, the jobs that run for longest and those that
    failed last. Without a terminal, and with --json, there is one picture.
    """
    if every < MIN_INTERVAL_S:
        raise typer.BadParameter("--every must be at least 200ms")
    if once or output.as_json or not _at_a_terminal():
        asyncio.run(_show_once(db, output))
    else:
        asyncio.run(_watch(db, every))


def _at_a_terminal() -> bool:
    return terminal().is_terminal


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of the queue: an overview, or the error that prevented it."""

    overview: Overview | None
    trouble: str | None = None


class LiveView:
    """Draws each reading, with a sparkline of the latest rates.

    If a reading has no overview, the last overview is drawn again with the error.
    """

    def __init__(self, database: Database) -> None:
        self._database_name = _describe_database(database)
        self._rates: deque[float] = deque(maxlen=SPARKLINE_LENGTH)
        self._last: Overview | None = None

    def draw(self, reading: Reading) -> Picture:
        if reading.overview is not None:
            self._last = reading.overview
            self._rates.append(reading.overview.throughput[0].total.per_second)
        return Picture(self._database_name, tuple(self._rates), self._last, reading.trouble)


@dataclass(frozen=True, slots=True)
class Picture:
    """A reading that can be drawn for a terminal of any size."""

    database_name: str
    rates: tuple[float, ...]
    overview: Overview | None
    trouble: str | None

    def whole(self, width: int) -> RenderableType:
        """Draw all rows, even if the picture is longer than the screen."""
        return self._draw(width, rows=(1000, 1000, 1000, 1000))

    def fitted(self, width: int, height: int) -> RenderableType:
        """Draw as many rows as fit on the screen.

        Running jobs get the lines that queues, workers and failures do not need.
        """
        if self.overview is None:
            return self._draw(width, rows=(0, 0, 0, 0))
        overview = self.overview
        room = height - HEADER_LINES - 4 * LINES_AROUND_SECTION - 1
        if overview.lanes is not None:
            room -= len(overview.lanes.lanes) + LINES_AROUND_SECTION
        queues = min(len(overview.queues), max(MIN_ROWS, room // 3))
        workers = min(len(overview.workers), max(MIN_ROWS, room // 4))
        failures = min(len(overview.failures), max(MIN_ROWS, room // 4))
        running = max(room - queues - workers - failures, MIN_ROWS)
        return self._draw(width, rows=(queues, workers, running, failures))

    def _draw(self, width: int, rows: tuple[int, int, int, int]) -> RenderableType:
        parts: list[RenderableType] = [self._title(width)]
        if self.trouble:
            parts.append(Text(self.trouble, "bold red"))
        if self.overview is None:
            return Group(*parts)
        overview, (queues, workers, running, failures) = self.overview, rows
        parts += [self._summary_line(overview), Text()]
        title = _section_title(
            "queues",
            min(queues, len(overview.queues)),
            len(overview.queues),
            overview.queues_left_out,
        )
        parts += [queues_table(overview.queues[:queues], width, title=title), Text()]
        if overview.lanes is not None:
            first = (
                ""
                if overview.lanes.following is None
                else f" of the first {overview.lanes.number.number:,}"
            )
            title = f"lanes of {overview.lanes.queue}, the largest{first}"
            parts += [lanes_table(overview.lanes, width, title=title), Text()]
        beyond = Count(overview.workers_left_out)
        title = _section_title(
            "workers", min(workers, len(overview.workers)), len(overview.workers), beyond
        )
        parts += [workers_table(overview.workers[:workers], width, title=title), Text()]
        parts += [_running_table(overview.running[:running], width), Text()]
        parts += [_failures_table(overview.failures[:failures], width)]
        return Group(*parts)

    def _title(self, width: int) -> Table:
        line = Table.grid(expand=width < 300)
        line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        line.add_column(justify="right", no_wrap=True)
        name = Text.assemble(("penstock ", "bold"), (self.database_name, tables.FAINT))
        line.add_row(name, Text(f"  {datetime.now(UTC):%H:%M:%S} UTC", tables.FAINT))
        return line

    def _summary_line(self, overview: Overview) -> Text:
        now, minute = overview.throughput
        ready = Count.sum(queue.ready for queue in overview.queues)
        scheduled = Count.sum(queue.scheduled for queue in overview.queues)
        running = Count.sum(queue.running for queue in overview.queues)
        living = [worker for worker in overview.workers if worker.is_alive]
        lost = len(overview.workers) - len(living)
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(format_rate(now.total.per_second), "bold green")
        if len(self.rates) > 1:
            text.append(f" {sparkline(self.rates, SPARKLINE_LENGTH)}", "green")
        text.append(f"  {ready} ready", tables.STATE_COLOURS["ready"])
        text.append(f"  {scheduled} scheduled", tables.STATE_COLOURS["scheduled"])
        text.append(f"  {running} running", tables.STATE_COLOURS["running"])
        blocked = Count.sum(queue.blocked for queue in overview.queues)
        text.append(
            f"  {blocked} blocked" if blocked.number else "", tables.STATE_COLOURS["blocked"]
        )
        late = Count.sum(queue.late for queue in overview.queues)
        text.append(f"  {late} late" if late.number else "", "red")
        text.append(f"  {counted(len(living), 'worker')}")
        text.append(f", {lost} lost" if lost else "", "bold red")
        failed = minute.total.failure_rate
        text.append(f"  last minute: {format_rate(minute.total.per_second)}")
        text.append(f", {format_percentage(failed)} failed", "red" if failed else tables.FAINT)
        return text


def _section_title(name: str, shown: int, listed: int, left_out: Count) -> str:
    """Return the title of a section, with the total if not all rows are shown."""
    total = Count.sum([Count(listed), left_out])
    return name if shown == total.number else f"{name}, {shown:,} of {total}"


def _running_table(jobs: Sequence[RunningJob], width: int) -> RenderableType:
    if not jobs:
        return tables.empty_text("Nothing runs.")
    builder = tables.TableBuilder(width, title="running, longest first")
    builder.column("job")
    builder.column("task", max_width=max(16, width // 4))
    builder.column("queue", max_width=16)
    builder.column("for", align_right=True)
    builder.column("worker", max_width=24, wider_than=95)
    builder.column("progress", elastic=True)
    for job in jobs:
        builder.row(
            job.id,
            job.task,
            job.queue,
            format_duration(job.seconds),
            Text(job.worker or "?", "" if job.is_alive else "red"),
            "" if job.progress is None else progress_line(job.progress, width=16),
        )
    return builder.table


def _failures_table(jobs: Sequence[FailedJob], width: int) -> RenderableType:
    if not jobs:
        return tables.empty_text("Nothing has failed.")
    builder = tables.TableBuilder(width, title="failed last")
    builder.column("job")
    builder.column("task", max_width=max(16, width // 4))
    builder.column("when", align_right=True)
    builder.column("of", elastic=True)
    for job in jobs:
        first_line = (job.error_message or "").partition("\n")[0]
        error = ": ".join(filter(None, (job.error_type, first_line)))
        builder.row(job.id, job.task, format_age(job.seconds_ago), Text(error or job.reason, "red"))
    return builder.table


def _describe_database(database: Database) -> str:
    """Name the database and its schema, without a password."""
    name = "embedded Postgres" if database.url is None else place(database.url)
    return name if database.schema == "penstock" else f"{name}, schema {database.schema}"


async def _show_once(db: DatabaseOptions, output: Output) -> None:
    """Print one reading."""
    async with open_queue(db) as queue:
        overview = await queue.insights.overview()
    console = terminal()
    picture = LiveView(queue.app.database).draw(Reading(overview))
    output.show(overview, lambda: picture.whole(console.width))


async def _watch(db: DatabaseOptions, every: float) -> None:
    """Draw one reading after the other until the user presses a quit key."""
    async with open_queue(db) as queue:
        console = terminal()
        quit_event = asyncio.Event()
        with (
            _quit_on_key(quit_event),
            Live(console=console, screen=True, auto_refresh=False) as live,
        ):
            await _draw_until(quit_event, queue, every, console, live)


async def _draw_until(
    quit_event: asyncio.Event, queue: OpenQueue, every: float, console: Console, live: Live
) -> None:
    view = LiveView(queue.app.database)
    while not quit_event.is_set():
        try:
            with explain_database_errors(queue.app.database):
                reading = Reading(await queue.insights.overview())
        except PenstockError as error:
            reading = Reading(None, str(error))
        live.update(view.draw(reading).fitted(console.width, console.height), refresh=True)
        try:
            async with asyncio.timeout(every):
                await quit_event.wait()
        except TimeoutError:
            pass


@contextmanager
def _quit_on_key(quit_event: asyncio.Event) -> Iterator[None]:
    """Set the event when the user presses a quit key. Restore the terminal's mode at the end."""
    import termios
    import tty

    if not sys.stdin.isatty():
        yield
        return
    stdin = sys.stdin.fileno()
    saved_mode = termios.tcgetattr(stdin)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        keys = os.read(stdin, 64).decode(errors="ignore")
        if not keys or keys == ESCAPE or QUIT_KEYS & set(keys):
            quit_event.set()

    tty.setcbreak(stdin)
    loop.add_reader(stdin, pressed)
    try:
        yield
    finally:
        loop.remove_reader(stdin)
        termios.tcsetattr(stdin, termios.TCSADRAIN, saved_mode)
