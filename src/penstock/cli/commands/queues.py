"""`penstock queues` and `penstock lanes`: read, pause, resume and change them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from penstock.cli.database import current_user, open_queue
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.queues import lanes_table, queues_table
from penstock.cli.settings import (
    NONE,
    Changes,
    given_settings,
    hours_clause,
    jobs_per_turn,
    join_clauses,
    late_clause,
    or_none,
    read_queue_names,
    require_set,
    warn_of_unknown_queue,
)
from penstock.cli.tables import format_duration
from penstock.groups.settings import LaneSettings, QueueSettings
from penstock.insights import QueueInsight
from penstock.tasks.options import QUEUE_NAME, check_name
from penstock.windows import Windows


@dataclass(frozen=True, kw_only=True)
class HoursOptions:
    """The hours in which workers take jobs."""

    window: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOURS",
            help="When workers take jobs: 'mon-fri 22:00-06:00', '12:00-13:00'. Again for more.",
            show_default=False,
        ),
    ] = None
    timezone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The time zone of the hours; UTC without.", show_default=False
        ),
    ] = None
    always: Annotated[bool, typer.Option("--no-window", help="At any time again.")] = False

    def windows(self) -> Any:
        """Return the windows that the user gave.

        `NONE` removes all windows, and None leaves them unchanged.
        """

        if self.window and self.always:
            raise typer.BadParameter("--window and --no-window cannot be used together")
        if self.timezone is not None and not self.window:
            raise typer.BadParameter("--timezone can only be used with --window")
        if self.always:
            return NONE
        return Windows(*self.window, timezone=self.timezone or "UTC") if self.window else None


app = group("queues", help="Look at queues, pause, resume and change them.")

Names = Annotated[list[str], typer.Argument(metavar="QUEUE", help="The queues by name.")]


@app.command("list", cls=Command)
@examples("penstock queues list", "penstock queues list --json")
@expand_options
def list_queues(
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many of the queues with ready jobs.")
    ] = 1000,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List the queues that have jobs, workers or settings.

    Jobs are counted up to 100,000 of a kind; 100,000+ says that there are more.
    """
    asyncio.run(_show_queues(limit, db, output))


@app.command("pause", cls=Command)
@examples("penstock queues pause mail", "penstock queues pause mail documents --json")
@expand_options
def pause(names: Names, db: DatabaseOptions, output: Output) -> None:
    """Let no worker take jobs from queues; what runs goes on, and jobs can still be enqueued."""
    asyncio.run(_pause_queues(names, db, output))


@app.command("resume", cls=Command)
@examples("penstock queues resume mail", "penstock queues resume mail documents")
@expand_options
def resume(names: Names, db: DatabaseOptions, output: Output) -> None:
    """Let workers take jobs from queues again."""
    asyncio.run(_resume_queues(names, db, output))


@app.command("set", cls=Command)
@examples(
    "penstock queues set imports --fair",
    "penstock queues set reports --window 'mon-fri 22:00-06:00' --timezone Europe/Berlin",
    "penstock queues set mail --ageing 1m --late-after 5m --no-window --json",
)
@expand_options
def set_queue(
    *,
    name: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue by its name.")],
    fair: Annotated[
        bool | None,
        typer.Option(
            "--fair/--no-fair",
            help="Whether lanes take turns, one for each tenant.",
            show_default=False,
        ),
    ] = None,
    lane_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="What the lanes are: tenant, task, subject, requested_by, args.NAME, meta.NAME.",
            show_default=False,
        ),
    ] = None,
    ageing: Annotated[
        float | None,
        typer.Option(
            parser=or_none(parse_duration),
            metavar="DURATION",
            help="How much waiting counts as 1 of priority; none takes it away.",
            show_default=False,
        ),
    ] = None,
    hours: HoursOptions,
    late_after: Annotated[
        float | None,
        typer.Option(
            parser=or_none(parse_duration),
            metavar="DURATION",
            help="How long after its time a job is late; none takes it away.",
            show_default=False,
        ),
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Change how a queue is served; what is not given stays as it is."""
    changes = given_settings(
        fair=fair, lane_key=lane_key, ageing=ageing, windows=hours.windows(), late_after=late_after
    )
    asyncio.run(_set_queue(name, changes, db, output))


lanes = group("lanes", help="Look at lanes, which take turns, and change them.")

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]
Lane = Annotated[str, typer.Argument(metavar="LANE", help="The lane: a tenant's name.")]


@lanes.command("list", cls=Command)
@examples("penstock lanes list mail", "penstock lanes list mail --limit 10 --json")
@expand_options
def list_lanes(
    *,
    queue: Queue,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 50,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="LANE", help="Lanes from this one on, by name.", show_default=False
        ),
    ] = "",
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List the lanes of a queue that have jobs or settings, the largest first.

    Jobs are counted up to 10,000 of a lane; 10,000+ says that there are more. Of more than 20,000
    lanes the first by name are looked at, and --from goes on.
    """
    asyncio.run(_show_lanes(queue, limit, start, db, output))


@lanes.command("set", cls=Command)
@examples(
    "penstock lanes set imports acme --weight 3",
    "penstock lanes set imports acme --window '22:00-06:00' --timezone Europe/Berlin --pause",
)
@expand_options
def set_lane(
    *,
    queue: Queue,
    lane: Lane,
    weight: Annotated[
        int | None,
        typer.Option(help="How many jobs it gets in each turn, 1 to 1000.", show_default=False),
    ] = None,
    paused: Annotated[
        bool | None,
        typer.Option(
            "--pause/--resume", help="Let workers take none of its jobs.", show_default=False
        ),
    ] = None,
    hours: HoursOptions,
    late_after: Annotated[
        float | None,
        typer.Option(
            parser=or_none(parse_duration),
            metavar="DURATION",
            help="How long after its time a job is late; none takes it away.",
            show_default=False,
        ),
    ] = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Change one lane of a queue; what is not given stays as it is."""
    windows = hours.windows()
    changes = given_settings(weight=weight, paused=paused, windows=windows, late_after=late_after)
    asyncio.run(_set_lane(queue, lane, changes, db, output))


@lanes.command("remove", cls=Command)
@examples("penstock lanes remove imports acme")
@expand_options
def remove_lane(queue: Queue, lane: Lane, db: DatabaseOptions, output: Output) -> None:
    """Forget what was set for a lane; its jobs take their turns like any other's."""
    asyncio.run(_remove_lane(queue, lane, db, output))


async def _show_lanes(
    queue: str, limit: int, start: str, db: DatabaseOptions, output: Output
) -> None:
    check_name("queue", queue, QUEUE_NAME)
    async with open_queue(db) as opened:
        page = await opened.insights.lanes(queue, limit=limit, start=start)
    output.show(page, lambda: lanes_table(page, terminal().width))
    if output.as_json:
        return
    if page.number.number > len(page.lanes):
        say(f"These are {len(page.lanes)} of {page.number} lanes: --limit shows more.")
    if page.following is not None:
        say(f"More lanes were not read: --from {page.following!r} continues there.")


async def _show_queues(limit: int, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        page = await queue.insights.queue_page(limit=limit)
    output.show(page, lambda: queues_table(page.queues, terminal().width))
    if page.left_out.number and not output.as_json:
        say(
            f"{len(page.queues):,} queues are shown. {page.left_out} more have ready jobs: "
            "--limit shows more of them."
        )


async def _pause_queues(names: Sequence[str], db: DatabaseOptions, output: Output) -> None:
    """Pause queues, and warn about each queue that has no jobs, workers or settings."""
    _check_names(names)
    async with open_queue(db) as queue:
        known = await read_queue_names(queue)
        for name in names:
            await queue.client.pause(name)
            warn_of_unknown_queue(name, known)
        insights = {insight.name: insight for insight in await queue.insights.queues()}
    document = [{"name": name, "paused": True, "known": name in known} for name in names]
    output.show(
        {"queues": document}, lambda: "\n".join(_describe_pause(insights[name]) for name in names)
    )


async def _resume_queues(names: Sequence[str], db: DatabaseOptions, output: Output) -> None:
    """Resume queues, and tell the user which of them were not paused."""
    _check_names(names)
    async with open_queue(db) as queue:
        known, paused = await read_queue_names(queue), await queue.app.paused()
        for name in names:
            await queue.client.resume(name)
            if name not in paused:
                say(f"The queue {name} was not paused.")
                warn_of_unknown_queue(name, known)
    document = [{"name": name, "paused": False, "known": name in known} for name in names]
    sentences = [f"Workers may take jobs from the queue {name}." for name in names]
    output.show({"queues": document}, lambda: "\n".join(sentences))


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        check_name("queue", name, QUEUE_NAME)


def _describe_pause(queue: QueueInsight) -> str:
    ready = "job waits" if queue.ready.number == 1 else "jobs wait"
    running = "runs" if queue.running.number == 1 else "run"
    return (
        f"The queue {queue.name} is paused: {queue.ready} ready {ready}, "
        f"{queue.running} {running} on."
    )


def _queue_sentence(queue: QueueSettings) -> str:
    lanes = queue.lane_key if "." in queue.lane_key else queue.lane_key.replace("_", " ")
    turns = f"takes turns by {lanes}" if queue.fair else "has one lane"
    return join_clauses(
        f"The queue {queue.name} {turns}",
        _ageing_clause(queue.ageing),
        hours_clause(queue.windows),
        late_clause(queue.late_after),
        "it is paused" if queue.paused else None,
    )


def _lane_sentence(lane: LaneSettings) -> str:
    name = f"The lane {lane.lane}" if lane.lane else "The lane of jobs without one"
    return join_clauses(
        f"{name} of the queue {lane.queue} gets {jobs_per_turn(lane.weight)} in each turn",
        hours_clause(lane.windows),
        late_clause(lane.late_after),
        "it is paused" if lane.paused else None,
    )


def _ageing_clause(ageing: float | None) -> str | None:
    return (
        None if ageing is None else f"{format_duration(ageing)} of waiting count as 1 of priority"
    )


async def _set_queue(name: str, changes: Changes, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        known = await read_queue_names(queue)
        settings = await queue.app.set_queue(name, **changes, by=current_user())
    warn_of_unknown_queue(name, known)
    if "lane_key" in changes and not settings.fair:
        say(
            f"The lane key has no effect yet: the queue {name} is not fair, so all of its jobs "
            f"share one lane. `penstock queues set {name} --fair` makes it fair."
        )
    output.show(settings, lambda: _queue_sentence(settings))


async def _set_lane(
    name: str, lane: str, changes: Changes, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue(db) as queue:
        settings = await queue.app.set_lane(name, lane, **changes, by=current_user())
        fair = [
            each_queue.name for each_queue in await queue.app.queue_settings() if each_queue.fair
        ]
    if name not in fair:
        say(
            f"The queue {name} is not fair: only jobs enqueued with a lane of their own have one. "
            f"`penstock queues set {name} --fair` makes it fair."
        )
    output.show(settings, lambda: _lane_sentence(settings))


async def _remove_lane(name: str, lane: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        removed = await queue.app.remove_lane(name, lane, by=current_user())
    require_set(removed, f"Nothing is set for the lane {lane} of the queue {name}.")
    document = {"queue": name, "lane": lane, "removed": True}
    output.show(document, lambda: f"Nothing is set for the lane {lane} of {name} any more.")
