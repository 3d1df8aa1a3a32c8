"""Draw workflows: a table with a row for each, or a page with the graph of one workflow's steps."""

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
from penstock.cli.tables import format_age, format_time
from penstock.groups.workflows import WorkflowStatus, WorkflowStep
from penstock.job import STATES, State
from penstock.wording import counted

WORKFLOW_COLOURS = {
    "running": "yellow",
    "blocked": "blue",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "bright_black",
}
STATE_SYMBOLS = {
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
MAX_NAMED = 4
MAX_INDENTED_DEPTH = 6
MAX_ERROR_LENGTH = 80


@dataclass(slots=True)
class Fan:
    """Steps of one task that have the same parents and the same children.

    `depth` is the length of the longest chain of fans before this one. `after` lists the fans that
    this one waits for.
    """

    steps: list[WorkflowStep]
    after: list[Fan] = field(default_factory=list)
    depth: int = 0

    @property
    def name(self) -> str:
        return common_name([step.name for step in self.steps]) or self.steps[0].task

    @property
    def label(self) -> str:
        return self.name if len(self.steps) == 1 else f"{self.name} ×{len(self.steps):,}"

    @property
    def states(self) -> Counter[str]:
        return Counter(step.state for step in self.steps)


def common_name(names: Sequence[str]) -> str:
    """Return the words with which all names begin, without the numbers that differ."""
    if len(names) == 1:
        return names[0]
    low, high = min(names), max(names)
    pairs = zip(low, high, strict=False)
    start = low[: next((at for at, (a, b) in enumerate(pairs) if a != b), len(low))]
    if any(name[len(start) :][:1].isalpha() for name in names):
        start = sub(r"\w*$", "", start)  # Keep whole words only.
    return start.rstrip(" -_:.#/0123456789")


def group_into_fans(steps: Sequence[WorkflowStep]) -> list[Fan]:
    """Group the steps of a workflow into fans. Each fan comes after the fans that it waits for."""
    children: dict[str, list[str]] = {step.id: [] for step in steps}
    for step in steps:
        for parent in step.parents:
            if parent in children:
                children[parent].append(step.id)
    fans: dict[tuple[object, ...], Fan] = {}
    fan_of: dict[str, Fan] = {}
    for step in steps:
        key = (step.task, step.parents, tuple(children[step.id]))
        fan = fans.setdefault(key, Fan([]))
        fan.steps.append(step)
        fan_of[step.id] = fan
    return _order_by_depth(list(fans.values()), fan_of)


def _order_by_depth(fans: list[Fan], fan_of: dict[str, Fan]) -> list[Fan]:
    children: dict[int, list[Fan]] = {id(fan): [] for fan in fans}
    waiting: dict[int, int] = {}
    for fan in fans:
        parents = {id(fan_of[p]): fan_of[p] for p in fan.steps[0].parents if p in fan_of}
        fan.after = list(parents.values())
        waiting[id(fan)] = len(parents)
        for parent_fan in fan.after:
            children[id(parent_fan)].append(fan)
    order = [fan for fan in fans if not waiting[id(fan)]]
    for fan in order:
        for child in children[id(fan)]:
            child.depth = max(child.depth, fan.depth + 1)
            waiting[id(child)] -= 1
            if not waiting[id(child)]:
                order.append(child)
    return sorted(order, key=lambda fan: fan.depth)


def workflows_table(workflows: Sequence[WorkflowStatus], width: int) -> RenderableType:
    """Return workflows as a table: the progress of each, and its failures."""
    if not workflows:
        return tables.empty_text("There are no such workflows.")
    now = datetime.now(UTC)
    builder = tables.TableBuilder(width)
    builder.column("id")
    builder.column("state")
    builder.column("done", align_right=True)
    builder.column("failed", align_right=True)
    builder.column(
        "stalled", align_right=True, needed=any(workflow.stalled for workflow in workflows)
    )
    builder.column("running", align_right=True, wider_than=80)
    builder.column("started", align_right=True)
    builder.column(
        "tenant",
        max_width=20,
        wider_than=100,
        needed=any(workflow.tenant for workflow in workflows),
    )
    builder.column("name", elastic=True)
    for workflow in workflows:
        builder.row(
            workflow.id,
            Text(workflow.state, WORKFLOW_COLOURS[workflow.state]),
            f"{workflow.counts.get('completed', 0):,}/{workflow.total:,}",
            _number(workflow.counts.get("failed", 0), "bold red"),
            _number(workflow.stalled, "yellow"),
            _number(workflow.counts.get("running", 0), tables.STATE_COLOURS["running"]),
            format_age((now - workflow.created_at).total_seconds()),
            workflow.tenant,
            workflow.name or "",
        )
    return builder.table


def workflow_page(workflow: WorkflowStatus) -> RenderableType:
    """Return a page about a workflow: its state, counts and times, and the graph of its steps."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=tables.FAINT, no_wrap=True)
    facts.add_column()
    for name, value in _fact_rows(workflow):
        if value is not None and value != "":
            facts.add_row(f"  {name}", value)
    return Group(_title(workflow), facts, Text(), draw_graph(workflow.steps))


def draw_graph(steps: Sequence[WorkflowStep]) -> RenderableType:
    """Draw a line for each fan, below the fans that it waits for and indented by its depth.

    Fans below the deepest indentation that fits on a screen are not indented any further.
    """
    lines = Text(no_wrap=True, overflow="ellipsis")
    previous: Fan | None = None
    for fan in group_into_fans(steps):
        if previous is not None:
            lines.append("\n")
        lines.append_text(_fan_line(fan, previous))
        previous = fan
    return lines


def _fan_line(fan: Fan, above: Fan | None) -> Text:
    line = Text("  ")
    if fan.depth:
        arrow = "└▶ " if fan.depth <= MAX_INDENTED_DEPTH else " ↓ "
        line.append("   " * (min(fan.depth, MAX_INDENTED_DEPTH) - 1) + arrow, tables.FAINT)
    if len(fan.steps) == 1:
        line.append_text(_step_text(fan.steps[0]))
    else:
        line.append_text(_fan_text(fan))
    # The line just above needs no arrow.
    if fan.after and fan.after != [above]:
        names = [parent.label for parent in fan.after]
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        line.append(f"  ← {', '.join(names[:MAX_NAMED])}{more}", tables.FAINT)
    return line


def _step_text(step: WorkflowStep) -> Text:
    colour = tables.STATE_COLOURS[step.state]
    line = Text.assemble((f"{STATE_SYMBOLS[step.state]} ", colour), (step.name, "bold"), "  ")
    line.append(step.state, colour)
    if step.reason and step.state in ("failed", "cancelled", "blocked"):
        line.append(f" ({step.reason})", colour)
    line.append(f"  job {step.id}", tables.FAINT)
    if step.error and step.state == "failed":
        line.append(f"  {_shorten(step.error)}", "red")
    elif step.state == "scheduled" and step.run_at is not None:
        line.append(f"  due at {format_time(step.run_at)} UTC", tables.FAINT)
        line.append(f", last error {_error_type(step)}" if step.error else "", "red")
    return line


def _fan_text(fan: Fan) -> Text:
    states = fan.states
    worst = next(state for state in WORST_FIRST if states[state])
    line = Text.assemble(
        (f"{STATE_SYMBOLS[worst]} ", tables.STATE_COLOURS[worst]), (fan.label, "bold"), ": "
    )
    counts = [
        Text(
            f"{states[state]:,} {state}{_failed_steps_text(fan, state)}",
            tables.STATE_COLOURS[state],
        )
        for state in ENDED_FIRST
        if states[state]
    ]
    return line.append_text(Text(", ").join(counts))


def _failed_steps_text(fan: Fan, state: State) -> str:
    """Name the failed steps. Return an empty string if there are none, or too many to name."""
    failed = [step for step in fan.steps if step.state == state == "failed"]
    if not failed or len(failed) > MAX_NAMED:
        return ""
    return f" ({', '.join(f'job {step.id}: {_error_type(step)}' for step in failed)})"


def _error_type(step: WorkflowStep) -> str:
    """Return the type of a step's last error, or else the reason why it ended."""
    return step.error.partition(":")[0] if step.error else step.reason or "no error"


def _fact_rows(workflow: WorkflowStatus) -> Iterator[tuple[str, RenderableType | None]]:
    counts = [
        Text(f"{workflow.counts[state]:,} {state}", tables.STATE_COLOURS[state])
        for state in STATES
        if workflow.counts.get(state)
    ]
    yield "jobs", Text(f"{workflow.total:,}: ").append_text(Text(", ").join(counts))
    if workflow.stalled:
        remedy = f"penstock workflows retry {workflow.id}, or penstock jobs unblock ID"
        hint = f"{counted(workflow.stalled, 'job')}: {remedy}"
        yield "waits for a person", Text(hint, "yellow")
    yield "tenant", workflow.tenant
    yield "started", f"{format_time(workflow.created_at)} UTC"
    yield (
        "ended",
        None if workflow.finished_at is None else f"{format_time(workflow.finished_at)} UTC",
    )
    yield "meta", msgspec.json.encode(workflow.meta).decode() if workflow.meta else None


def _title(workflow: WorkflowStatus) -> Text:
    name = (f"  {workflow.name}", "bold cyan") if workflow.name else ""
    state = (workflow.state, WORKFLOW_COLOURS[workflow.state])
    return Text.assemble((f"Workflow {workflow.id}", "bold"), name, "  ", state)


def _shorten(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= MAX_ERROR_LENGTH else line[: MAX_ERROR_LENGTH - 1] + "…"


def _number(number: int, colour: str = "") -> Text:
    return Text(f"{number:,}", colour if number else tables.FAINT)
