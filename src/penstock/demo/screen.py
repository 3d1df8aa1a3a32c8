"""Show the demo while it runs, redrawn on a terminal or as plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import IO, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.demo.summary import Span, Story, sparkline
from penstock.job import State

NEWS_LINES = 7
SHOWN: tuple[tuple[State, str], ...] = (
    ("ready", "cyan"),
    ("scheduled", "magenta"),
    ("running", "yellow"),
    ("completed", "green"),
    ("failed", "red"),
)


class DemoScreen(Protocol):
    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, story: Story) -> None: ...


class LiveScreen:
    """Show counts, throughput, workers and recent events, redrawn a few times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, story: Story) -> None:
        width = min(self._console.width, 100)
        parts = Group(_table(story), _throughput(story, width - 32), _workers(story), _news(story))
        self._live.update(
            Panel(parts, title=f"Penstock, {story.now:.1f} s", width=width, padding=(0, 1))
        )


class PlainScreen:
    """Print a line with counts every second, and a line for each event."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lines_printed = 0
        self._next = 1.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._out.flush()

    def show(self, story: Story) -> None:
        for at, text in story.lines[self._lines_printed :]:
            print(f"{at:5.1f} s  {text}", file=self._out, flush=True)
        self._lines_printed = len(story.lines)
        if story.now >= self._next:
            self._next = story.now + 1.0
            ended, jobs, workers = story.ended, len(story.tasks), len(story.alive)
            print(
                f"{story.now:5.1f} s  {ended:,} of {jobs:,} jobs have ended, {workers} workers",
                file=self._out,
                flush=True,
            )


def _table(story: Story) -> Table:
    table = Table(box=None, padding=(0, 1), expand=True)
    table.add_column("task", no_wrap=True)
    for state, colour in SHOWN:
        table.add_column(state, justify="right", style=colour)
    table.add_column("", ratio=1)
    for task, counts in story.counts().items():
        total = counts.total()
        ended = counts["completed"] + counts["failed"]
        numbers = [f"{counts[state]:,}" if counts[state] else "·" for state, _ in SHOWN]
        table.add_row(task, *numbers, _bar(ended / total))
    return table


def _bar(share: float, width: int = 20) -> Text:
    full = int(share * width)
    return Text.assemble(("█" * full, "green"), ("░" * (width - full), "bright_black"))


def _throughput(story: Story, width: int) -> Text:
    rates = story.rates()
    settled = rates[:-1] or rates  # the newest slice is not full yet
    return Text.assemble(
        "\n ",
        (sparkline(settled, width), "green"),
        f" {settled[-1]:,.0f} jobs/s, {story.ended:,} of {len(story.tasks):,}\n",
    )


def _workers(story: Story) -> Text:
    newest: dict[int, Span] = {span.number: span for span in story.spans}
    text = Text(" workers  ")
    for number, span in sorted(newest.items()):
        if span.ended is None:
            text.append(f"● {number} ", "green").append(f"process {span.pid}   ", "bright_black")
        else:
            text.append(f"✗ {number} killed           ", "red")
    return text


def _news(story: Story) -> Text:
    lines = [f" {at:5.1f} s  {text}" for at, text in story.lines[-NEWS_LINES:]]
    return Text("\n" + "\n".join(lines + [""] * (NEWS_LINES - len(lines))))
