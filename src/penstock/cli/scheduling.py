"""What `penstock schedules` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import typer

from penstock.app.app import Penstock
from penstock.cli.enqueueing import reached_making
from penstock.cli.given import user
from penstock.cli.opening import reached
from penstock.cli.output import Output, say, terminal
from penstock.cli.requests import MakeRequest, by_name, object_from
from penstock.cli.schedules import What
from penstock.cli.screens import schedules as screen
from penstock.cli.where import Where
from penstock.errors import ScheduleNotFound
from penstock.groups.schedules import Schedule
from penstock.insights import WorkerInsight
from penstock.store.enqueue import parts_to_keep


async def show_all(after: str | None, limit: int, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.schedules(after=after, limit=limit)
        workers = await queue.insights.workers()
    following = found[-1].name if len(found) == limit else None
    document = {"schedules": found, "after": following}
    output.show(document, lambda: screen.schedules_table(found, workers, terminal().width))
    if following is not None and not output.as_json:
        say(f"There may be more: --after {following}")


async def show_one(name: str, ticks: int, fires: int, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.get_schedule(name)
        last = await queue.app.schedule_fires(name, limit=fires) if fires else []
        workers = await queue.insights.workers()
    upcoming = found.upcoming(ticks) if found.next_at else []
    document = msgspec.to_builtins(found) | {"upcoming": upcoming, "fires": last}
    output.show(document, lambda: screen.schedule_page(found, workers, upcoming, last))


async def change(
    name: str,
    changes: dict[str, Any],
    what: What,
    where: Where,
    output: Output,
) -> None:
    async with reached_making(what.app, where) as (queue, make):
        if what.is_given:
            changes |= _request(what, await _present(queue.app, name), make)
        found = await queue.for_owner().app.set_schedule(name, **changes, by=user())
        workers = await queue.insights.workers()
    _remark_on(found, workers)
    output.show(found, lambda: screen.sentence(found))


def _request(what: What, now: Schedule | None, make: MakeRequest) -> dict[str, Any]:
    """The new request of a schedule, and the parts of its present request that stay."""
    task = what.task or (now.task if now else None)
    if task is None:
        raise typer.BadParameter("there is no such schedule yet: give --task as well")
    if now is not None and task == now.task and what.args is None:
        kept = parts_to_keep(what.options(), is_other_call=False)
        # The arguments stay as stored, perhaps in the form of an earlier version of the task.
        return {"what": by_name(task, now.args, what.options()), "keep": kept}
    arguments = now.args if now else {}
    if what.args is not None:
        arguments = object_from(what.args, "What is given as arguments")
    kept = parts_to_keep(what.options(), is_other_call=True)
    return {"what": make(task, arguments, what.options()), "keep": kept}


async def _present(app: Penstock, name: str) -> Schedule | None:
    try:
        return await app.get_schedule(name)
    except ScheduleNotFound:
        return None


async def pause(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        await queue.app.pause_schedule(name, by=user())
    document = {"name": name, "paused": True}
    output.show(document, lambda: f"The schedule {name} is paused.")


async def resume(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        await queue.app.resume_schedule(name, by=user())
        found = await queue.app.get_schedule(name)
        workers = await queue.insights.workers()
    _remark_on(found, workers)
    output.show({"name": name, "paused": False}, lambda: screen.sentence(found))


async def run(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        job = await queue.app.run_schedule(name, by=user())
    document = {"name": name, "job": job.id}
    output.show(document, lambda: f"Job {job.id} of the schedule {name} was enqueued.")


async def reset(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.reset_schedule(name, by=user())
        workers = await queue.insights.workers()
    _remark_on(found, workers)
    output.show(found, lambda: screen.sentence(found))


async def remove(name: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.get_schedule(name)
        if not await queue.app.remove_schedule(name, by=user()):
            raise ScheduleNotFound(name)
    output.show({"name": name, "removed": True}, lambda: f"The schedule {name} was removed.")
    if found.source == "code":
        say(
            f"Code declares {name}: the next worker with that code brings it back when it starts. "
            "Take it out of the code, or pause it instead."
        )


def _remark_on(found: Schedule, workers: Sequence[WorkerInsight]) -> None:
    if found.paused_at is not None:
        say(f"It is paused: `penstock schedules resume {found.name}` lets it fire.")
    elif not found.is_active:
        say("No living worker declares it: it fires once a worker with its code has started.")
    elif not screen.is_known(found, workers):
        say(f"No living worker knows the task {found.task}: its jobs wait until one does.")
