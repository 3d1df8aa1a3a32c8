"""`penstock queues` and `penstock lanes`: look at them, and pause, resume and change them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from penstock.cli.database import reached, user
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens.queues import lanes_table, queues_table
from penstock.cli.settings import (
    NONE,
    Changes,
    expect_set,
    jobs_in_turn,
    known_queues,
    lateness,
    opening_hours,
    or_none,
    sentence,
    settings,
    warn_of_unknown,
)
from penstock.cli.tables import length
from penstock.groups.settings import LaneSettings, QueueSettings
from penstock.insights import QueueInsight
from penstock.tasks.options import QUEUE_NAME, matching
from penstock.windows import Windows


@dataclass(frozen=True, kw_only=True)
class Hours:
    """The windows in which workers take jobs."""

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

    def given(self) -> Any:
        """The windows; `none` for no windows any more, None if nothing is to change."""

        if self.window and self.always:
            raise typer.BadParameter("either --window or --no-window, not both")
        if self.timezone is not None and not self.window:
            raise typer.BadParameter("--timezone goes with --window")
        if self.always:
            return NONE
        return Windows(*self.window, timezone=self.timezone or "UTC") if self.window else None


app = group("queues", help="Look at queues, pause, resume and change them.")

Names = Annotated[list[str], typer.Argument(metavar="QUEUE", help="The queues by name.")]


@app.command("list", cls=Command)
@examples("penstock queues list", "penstock queues list --json")
@spread
def list_queues(
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="How many of the queues with ready jobs.")
    ] = 1000,
    where: Where,
    output: Output,
) -> None:
    """List the queues that have jobs, workers or settings.

    Jobs are counted up to 100,000 of a kind; 100,000+ says that there are more.
    """
    asyncio.run(_show_queues(limit, where, output))


@app.command("pause", cls=Command)
@examples("penstock queues pause mail", "penstock queues pause mail documents --json")
@spread
def pause(names: Names, where: Where, output: Output) -> None:
    """Let no worker take jobs from queues; what runs goes on, and jobs can still be enqueued."""
    asyncio.run(_pause_queues(names, where, output))


@app.command("resume", cls=Command)
@examples("penstock queues resume mail", "penstock queues resume mail documents")
@spread
def resume(names: Names, where: Where, output: Output) -> None:
    """Let workers take jobs from queues again."""
    asyncio.run(_resume_queues(names, where, output))


@app.command("set", cls=Command)
@examples(
    "penstock queues set imports --fair",
    "penstock queues set reports --window 'mon-fri 22:00-06:00' --timezone Europe/Berlin",
    "penstock queues set mail --ageing 1m --late-after 5m --no-window --json",
)
@spread
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
            parser=or_none(seconds),
            metavar="DURATION",
            help="How much waiting counts as 1 of priority; none takes it away.",
            show_default=False,
        ),
    ] = None,
    hours: Hours,
    late_after: Annotated[
        float | None,
        typer.Option(
            parser=or_none(seconds),
            metavar="DURATION",
            help="How long after its time a job is late; none takes it away.",
            show_default=False,
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """Change how a queue is served; what is not given stays as it is."""
    changes = settings(
        fair=fair, lane_key=lane_key, ageing=ageing, windows=hours.given(), late_after=late_after
    )
    asyncio.run(_set_queue(name, changes, where, output))


lanes = group("lanes", help="Look at lanes, which take turns, and change them.")

Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]
Lane = Annotated[str, typer.Argument(metavar="LANE", help="The lane: a tenant's name.")]


@lanes.command("list", cls=Command)
@examples("penstock lanes list mail", "penstock lanes list mail --limit 10 --json")
@spread
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
    where: Where,
    output: Output,
) -> None:
    """List the lanes of a queue that have jobs or settings, the largest first.

    Jobs are counted up to 10,000 of a lane; 10,000+ says that there are more. Of more than 20,000
    lanes the first by name are looked at, and --from goes on.
    """
    asyncio.run(_show_lanes(queue, limit, start, where, output))


@lanes.command("set", cls=Command)
@examples(
    "penstock lanes set imports acme --weight 3",
    "penstock lanes set imports acme --window '22:00-06:00' --timezone Europe/Berlin --pause",
)
@spread
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
    hours: Hours,
    late_after: Annotated[
        float | None,
        typer.Option(
            parser=or_none(seconds),
            metavar="DURATION",
            help="How long after its time a job is late; none takes it away.",
            show_default=False,
        ),
    ] = None,
    where: Where,
    output: Output,
) -> None:
    """Change one lane of a queue; what is not given stays as it is."""
    windows = hours.given()
    changes = settings(weight=weight, paused=paused, windows=windows, late_after=late_after)
    asyncio.run(_set_lane(queue, lane, changes, where, output))


@lanes.command("remove", cls=Command)
@examples("penstock lanes remove imports acme")
@spread
def remove_lane(queue: Queue, lane: Lane, where: Where, output: Output) -> None:
    """Forget what was set for a lane; its jobs take their turns like any other's."""
    asyncio.run(_remove_lane(queue, lane, where, output))


async def _show_lanes(queue: str, limit: int, start: str, where: Where, output: Output) -> None:

    matching("queue", queue, QUEUE_NAME)
    async with reached(where) as opened:
        found = await opened.insights.lanes(queue, limit=limit, start=start)
    output.show(found, lambda: lanes_table(found, terminal().width))
    if output.as_json:
        return
    if found.number.number > len(found.lanes):
        say(f"These are {len(found.lanes)} of {found.number} lanes: --limit shows more.")
    if found.following is not None:
        say(f"More were not looked at: --from {found.following!r} goes on.")


async def _show_queues(limit: int, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        page = await queue.insights.queue_page(limit=limit)
    output.show(page, lambda: queues_table(page.queues, terminal().width))
    if page.left_out.number and not output.as_json:
        say(
            f"{len(page.queues):,} queues are shown. {page.left_out} more have ready jobs: "
            "--limit shows more of them."
        )


async def _pause_queues(names: Sequence[str], where: Where, output: Output) -> None:
    """Pause; a name that nobody uses is paused too, but said to be suspicious."""
    _check(names)
    async with reached(where) as queue:
        known = await known_queues(queue)
        for name in names:
            await queue.client.pause(name)
            warn_of_unknown(name, known)
        found = {each.name: each for each in await queue.insights.queues()}
    document = [{"name": name, "paused": True, "known": name in known} for name in names]
    output.show({"queues": document}, lambda: "\n".join(_paused(found[name]) for name in names))


async def _resume_queues(names: Sequence[str], where: Where, output: Output) -> None:
    """Resume; one that was not paused is said to be so."""
    _check(names)
    async with reached(where) as queue:
        known, paused = await known_queues(queue), await queue.app.paused()
        for name in names:
            await queue.client.resume(name)
            if name not in paused:
                say(f"The queue {name} was not paused.")
                warn_of_unknown(name, known)
    document = [{"name": name, "paused": False, "known": name in known} for name in names]
    told = [f"Workers may take jobs from the queue {name}." for name in names]
    output.show({"queues": document}, lambda: "\n".join(told))


def _check(names: Sequence[str]) -> None:
    for name in names:
        matching("queue", name, QUEUE_NAME)


def _paused(queue: QueueInsight) -> str:
    ready = "job waits" if queue.ready.number == 1 else "jobs wait"
    running = "runs" if queue.running.number == 1 else "run"
    return (
        f"The queue {queue.name} is paused: {queue.ready} ready {ready}, "
        f"{queue.running} {running} on."
    )


def _queue_sentence(found: QueueSettings) -> str:
    lanes = found.lane_key if "." in found.lane_key else found.lane_key.replace("_", " ")
    turns = f"takes turns by {lanes}" if found.fair else "has one lane"
    return sentence(
        f"The queue {found.name} {turns}",
        _ageing(found.ageing),
        opening_hours(found.windows),
        lateness(found.late_after),
        "it is paused" if found.paused else None,
    )


def _lane_sentence(found: LaneSettings) -> str:
    name = f"The lane {found.lane}" if found.lane else "The lane of jobs without one"
    return sentence(
        f"{name} of the queue {found.queue} gets {jobs_in_turn(found.weight)} in each turn",
        opening_hours(found.windows),
        lateness(found.late_after),
        "it is paused" if found.paused else None,
    )


def _ageing(ageing: float | None) -> str | None:
    return None if ageing is None else f"{length(ageing)} of waiting count as 1 of priority"


async def _set_queue(name: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        known = await known_queues(queue)
        found = await queue.app.set_queue(name, **changes, by=user())
    warn_of_unknown(name, known)
    if "lane_key" in changes and not found.fair:
        say(f"The queue {name} is not fair, and has one lane: --fair makes it so.")
    output.show(found, lambda: _queue_sentence(found))


async def _set_lane(name: str, lane: str, changes: Changes, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.set_lane(name, lane, **changes, by=user())
        fair = [each.name for each in await queue.app.queue_settings() if each.fair]
    if name not in fair:
        say(
            f"The queue {name} is not fair: only jobs enqueued with a lane of their own have one. "
            f"`penstock queues set {name} --fair` makes it so."
        )
    output.show(found, lambda: _lane_sentence(found))


async def _remove_lane(name: str, lane: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        removed = await queue.app.remove_lane(name, lane, by=user())
    expect_set(removed, f"Nothing is set for the lane {lane} of the queue {name}.")
    document = {"queue": name, "lane": lane, "removed": True}
    output.show(document, lambda: f"Nothing is set for the lane {lane} of {name} any more.")
