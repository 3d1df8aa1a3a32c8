"""Settings in words: a sentence for one, a table for many."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import length
from penstock.groups.settings import LaneSettings, Limit, Plan, QueueSettings, Retention, Tenant
from penstock.job import State
from penstock.rate import as_text
from penstock.windows import Windows


def queue(found: QueueSettings) -> str:
    lanes = found.lane_key if "." in found.lane_key else found.lane_key.replace("_", " ")
    turns = f"takes turns by {lanes}" if found.fair else "has one lane"
    return _sentence(
        f"The queue {found.name} {turns}",
        _ageing(found.ageing),
        _hours(found.windows),
        _late(found.late_after),
        "it is paused" if found.paused else None,
    )


def lane(found: LaneSettings) -> str:
    name = f"The lane {found.lane}" if found.lane else "The lane of jobs without one"
    return _sentence(
        f"{name} of the queue {found.queue} gets {_jobs(found.weight)} in each turn",
        _hours(found.windows),
        _late(found.late_after),
        "it is paused" if found.paused else None,
    )


def limit(found: Limit) -> str:
    who = f"Each {found.key} by itself" if found.key[-1] == "*" else found.key
    if found.key == "*":
        who = "Each key without a limit of its own, such as each queue and each lane, by itself"
    told = [] if found.slots is None else [f"at most {found.slots:,} at once"]
    if found.rate is not None:
        told += [as_text(found.rate), f"{_amount(found.burst)} in a burst"]
    return f"{who} is limited: {', '.join(told)}."


def plan(found: Plan) -> str:
    return _sentence(
        f"The plan {found.name} adds {found.priority} to priorities",
        f"a tenant's lane gets {_jobs(found.weight)} in each turn",
        _late(found.late_after),
    )


def tenant(found: Tenant) -> str:
    has = f"has the plan {found.plan}" if found.plan else "has no plan"
    return _sentence(f"The tenant {found.name} {has}", _late(found.late_after))


def retention(found: Retention) -> str:
    days = f"{found.days} day{'' if found.days == 1 else 's'}"
    jobs = whose(found.state, found.queue, found.tenant)
    return f"{jobs[0].upper()}{jobs[1:]} are kept for {days} from now on."


def whose(state: State, queue: str, tenant: str) -> str:
    """The jobs that a rule is for."""
    of = [f"the queue {queue}"] if queue else []
    of += [f"the tenant {tenant}"] if tenant else []
    return f"{state} jobs{' of ' if of else ''}{' and '.join(of)}"


def retentions_table(rules: Sequence[Retention], width: int) -> RenderableType:
    if not rules:
        return style.nothing("No rule is set: failed jobs are kept for 30 days, others for 7.")
    sheet = style.Sheet(width, fills=False)
    sheet.column("state")
    sheet.column("queue", most=max(16, width // 3))
    sheet.column("tenant", most=max(16, width // 3))
    sheet.column("days", right=True)
    for each in rules:
        names = [
            Text(name) if name else Text("any", style.FAINT) for name in (each.queue, each.tenant)
        ]
        sheet.row(style.state(each.state), *names, f"{each.days}")
    return sheet.table


def plans_table(plans: Sequence[Plan], width: int) -> RenderableType:
    if not plans:
        return style.nothing("There are no plans.")
    sheet = style.Sheet(width, fills=False)
    sheet.column("plan", most=max(16, width // 3))
    for name in ("priority", "weight", "late after"):
        sheet.column(name, right=True)
    for each in plans:
        sheet.row(each.name, f"{each.priority:+}", f"{each.weight}", _cell(each.late_after))
    return sheet.table


def tenants_table(tenants: Sequence[Tenant], width: int) -> RenderableType:
    if not tenants:
        return style.nothing("Nothing is set for tenants.")
    sheet = style.Sheet(width, fills=False)
    sheet.column("tenant", most=max(16, width // 3))
    sheet.column("plan", most=max(16, width // 3))
    sheet.column("late after", right=True)
    for each in tenants:
        sheet.row(each.name, each.plan or Text("none", style.FAINT), _cell(each.late_after))
    return sheet.table


def _sentence(*parts: str | None) -> str:
    return f"{'; '.join(filter(None, parts))}."


def _amount(number: float | None) -> str:
    return f"{number or 0:,.2f}".rstrip("0").rstrip(".")


def _jobs(weight: int) -> str:
    return "1 job" if weight == 1 else f"{weight} jobs"


def _hours(windows: Windows | None) -> str | None:
    return None if windows is None else f"open {windows}"


def _ageing(ageing: float | None) -> str | None:
    return None if ageing is None else f"{length(ageing)} of waiting count as 1 of priority"


def _late(late_after: float | None) -> str | None:
    return None if late_after is None else f"late after {length(late_after)}"


def _cell(late_after: float | None) -> Text:
    return Text("never", style.FAINT) if late_after is None else Text(length(late_after))
