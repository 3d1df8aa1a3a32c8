"""Workflows: a line each, or one of them with the graph of its steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from re import sub

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli import tables
from penstock.cli.tables import ago, at
from penstock.groups.workflows import WorkflowStatus, WorkflowStep
from penstock.job import STATES, State
from penstock.wording import counted


@dataclass(slots=True)
class Fan:
    """Steps of one task that wait for the same ones and are waited for by the same ones.

    `depth` is how many stages are before it; `after` are the fans that it waits for.
    """

    steps: list[WorkflowStep]
    after: list[Fan] = field(default_factory=list)
    depth: int = 0

    @property
    def name(self) -> str:
        return shared([step.name for step in self.steps]) or self.steps[0].task

    @property
    def label(self) -> str:
        return self.name if len(self.steps) == 1 else f"{self.name} ×{len(self.steps):,}"

    @property
    def states(self) -> Counter[str]:
        return Counter(step.state for step in self.steps)


def shared(names: Sequence[str]) -> str:
    """The words with which all names begin, without the numbers that tell them apart."""
    if len(names) == 1:
        return names[0]
    low, high = min(names), max(names)
    pairs = zip(low, high, strict=False)
    start = low[: next((at for at, (a, b) in enumerate(pairs) if a != b), len(low))]
    if any(name[len(start) :][:1].isalpha() for name in names):
        start = sub(r"\w*$", "", start)  # only whole words are shared
    return start.rstrip(" -_:.#/0123456789")


def fans_of(steps: Sequence[WorkflowStep]) -> list[Fan]:
    """The fans of a workflow, each after those that it waits for."""
    children: dict[str, list[str]] = {step.id: [] for step in steps}
    for step in steps:
        for parent in step.parents:
            if parent in children:
                children[parent].append(step.id)
    found: dict[tuple[object, ...], Fan] = {}
    fan_of: dict[str, Fan] = {}
    for step in steps:
        key = (step.task, step.parents, tuple(children[step.id]))
        fan = found.setdefault(key, Fan([]))
        fan.steps.append(step)
        fan_of[step.id] = fan
    return _layered(list(found.values()), fan_of)


def _layered(fans: list[Fan], fan_of: dict[str, Fan]) -> list[Fan]:
    below: dict[int, list[Fan]] = {id(fan): [] for fan in fans}
    waiting: dict[int, int] = {}
    for fan in fans:
        above = {id(fan_of[p]): fan_of[p] for p in fan.steps[0].parents if p in fan_of}
        fan.after = list(above.values())
        waiting[id(fan)] = len(above)
        for each in fan.after:
            below[id(each)].append(fan)
    order = [fan for fan in fans if not waiting[id(fan)]]
    for fan in order:
        for child in below[id(fan)]:
            child.depth = max(child.depth, fan.depth + 1)
            waiting[id(child)] -= 1
            if not waiting[id(child)]:
                order.append(child)
    return sorted(order, key=lambda fan: fan.depth)


COLOURS = {
    "running": "yellow",
    "blocked": "blue",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "bright_black",
}
MARKS = {
    "completed": "✓",
    "failed": "✗",
    "cancelled": "–",
    "running": "▶",
    "ready": "○",
    "scheduled": "◷",
    "blocked": "·",
}
WORST_FIRST: tuple[State, ...] = ("failed", "running", *STATES)
ENDED_FIRST: tuple[State, ...] = ("completed", "failed", "cancelled", *STATES[:4])
NAMED = 4
DEEPEST = 6
ERROR = 80


def workflows_table(workflows: Sequence[WorkflowStatus], width: int) -> RenderableType:
    """Workflows as a table: how far each is, and what it came to."""
    if not workflows:
        return tables.nothing("There are no such workflows.")
    now = datetime.now(UTC)
    sheet = tables.Sheet(width)
    sheet.column("id")
    sheet.column("state")
    sheet.column("done", right=True)
    sheet.column("failed", right=True)
    sheet.column("stalled", right=True, needed=any(each.stalled for each in workflows))
    sheet.column("running", right=True, above=80)
    sheet.column("started", right=True)
    sheet.column("tenant", most=20, above=100, needed=any(each.tenant for each in workflows))
    sheet.column("name", elastic=True)
    for each in workflows:
        sheet.row(
            each.id,
            Text(each.state, COLOURS[each.state]),
            f"{each.counts.get('completed', 0):,}/{each.total:,}",
            _number(each.counts.get("failed", 0), "bold red"),
            _number(each.stalled, "yellow"),
            _number(each.counts.get("running", 0), tables.STATES["running"]),
            ago((now - each.created_at).total_seconds()),
            each.tenant,
            each.name or "",
        )
    return sheet.table


def workflow_page(seen: WorkflowStatus) -> RenderableType:
    """All that is known about a workflow: in words, then as a graph."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=tables.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _named(seen):
        if value is not None and value != "":
            facts.add_row(f"  {name}", value)
    return Group(_title(seen), facts, Text(), graph(seen.steps))


def graph(steps: Sequence[WorkflowStep]) -> RenderableType:
    """A line for each fan, below what it waits for and as far to the right as stages are before.

    Behind the deepest stage that fits on a screen it goes straight down.
    """
    lines = Text(no_wrap=True, overflow="ellipsis")
    last: Fan | None = None
    for fan in fans_of(steps):
        if last is not None:
            lines.append("\n")
        lines.append_text(_line(fan, last))
        last = fan
    return lines


def _line(fan: Fan, above: Fan | None) -> Text:
    line = Text("  ")
    if fan.depth:
        arrow = "└▶ " if fan.depth <= DEEPEST else " ↓ "
        line.append("   " * (min(fan.depth, DEEPEST) - 1) + arrow, tables.FAINT)
    if len(fan.steps) == 1:
        line.append_text(_alone(fan.steps[0]))
    else:
        line.append_text(_counted(fan))
    # What is just above needs no words.
    if fan.after and fan.after != [above]:
        names = [each.label for each in fan.after]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        line.append(f"  ← {', '.join(names[:NAMED])}{more}", tables.FAINT)
    return line


def _alone(step: WorkflowStep) -> Text:
    colour = tables.STATES[step.state]
    line = Text.assemble((f"{MARKS[step.state]} ", colour), (step.name, "bold"), "  ")
    line.append(step.state, colour)
    if step.reason and step.state in ("failed", "cancelled", "blocked"):
        line.append(f" ({step.reason})", colour)
    line.append(f"  job {step.id}", tables.FAINT)
    if step.error and step.state == "failed":
        line.append(f"  {_short(step.error)}", "red")
    elif step.state == "scheduled" and step.run_at is not None:
        line.append(f"  due at {at(step.run_at)} UTC", tables.FAINT)
        line.append(f", last error {_kind(step)}" if step.error else "", "red")
    return line


def _counted(fan: Fan) -> Text:
    states = fan.states
    worst = next(each for each in WORST_FIRST if states[each])
    line = Text.assemble((f"{MARKS[worst]} ", tables.STATES[worst]), (fan.label, "bold"), ": ")
    told = [
        Text(f"{states[each]:,} {each}{_failures(fan, each)}", tables.STATES[each])
        for each in ENDED_FIRST
        if states[each]
    ]
    return line.append_text(Text(", ").join(told))


def _failures(fan: Fan, state: State) -> str:
    """Which have failed, if they are few."""
    failed = [step for step in fan.steps if step.state == state == "failed"]
    if not failed or len(failed) > NAMED:
        return ""
    return f" ({', '.join(f'job {step.id}: {_kind(step)}' for step in failed)})"


def _kind(step: WorkflowStep) -> str:
    """The type of a step's last error; without one, why it ended."""
    return step.error.partition(":")[0] if step.error else step.reason or "no error"


def _named(seen: WorkflowStatus) -> Iterator[tuple[str, RenderableType | None]]:
    told = [
        Text(f"{seen.counts[each]:,} {each}", tables.STATES[each])
        for each in STATES
        if seen.counts.get(each)
    ]
    yield "jobs", Text(f"{seen.total:,}: ").append_text(Text(", ").join(told))
    if seen.stalled:
        remedy = f"penstock workflows retry {seen.id}, or penstock jobs unblock ID"
        hint = f"{counted(seen.stalled, 'job')}: {remedy}"
        yield "waits for a person", Text(hint, "yellow")
    yield "tenant", seen.tenant
    yield "started", f"{at(seen.created_at)} UTC"
    yield "ended", None if seen.finished_at is None else f"{at(seen.finished_at)} UTC"
    yield "meta", msgspec.json.encode(seen.meta).decode() if seen.meta else None


def _title(seen: WorkflowStatus) -> Text:
    name = (f"  {seen.name}", "bold cyan") if seen.name else ""
    state = (seen.state, COLOURS[seen.state])
    return Text.assemble((f"Workflow {seen.id}", "bold"), name, "  ", state)


def _short(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= ERROR else line[: ERROR - 1] + "…"


def _number(number: int, colour: str = "") -> Text:
    return Text(f"{number:,}", colour if number else tables.FAINT)
