"""Schedules. A name may hold slashes, so it stands in the query."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec import Struct
from starlette.responses import Response

from penstock.app.app import Penstock
from penstock.connect.enqueue import Enqueued
from penstock.errors import ScheduleNotFound
from penstock.groups.answers import Removed
from penstock.groups.schedules import Fire, Schedule
from penstock.service.auth import Caller
from penstock.service.dependencies import GlobalOperator, GlobalReader, runtime_of
from penstock.service.enqueue import request_from, request_with_stored_args
from penstock.service.problems import Problem, described, raises
from penstock.service.routing import as_json, returns
from penstock.service.schemas import Moment, NewJob, OptionsBody, ScheduleBody
from penstock.store.enqueue import parts_to_keep

router = APIRouter(tags=["schedules"])

# Letters and digits of any script; what `\w` means differs between those who read the document.
NAME_PATTERN = described(
    r"^[\p{L}\p{N}_.:@/+-]{1,200}$",
    "a schedule's name: at most 200 letters, digits, and _ . : @ / + -",
)
Name = Annotated[str, Query(pattern=NAME_PATTERN)]
READ = raises(401, 403, 404, 422, 503)
CHANGE = raises(400, 401, 403, 404, 409, 413, 422, 503)


class Schedules(Struct, frozen=True):
    """Schedules by name, and what to pass as `after` for more."""

    schedules: list[Schedule]
    after: str | None


class Fires(Struct, frozen=True):
    """What came of the last ticks, the newest first, and what to pass as `after` for more."""

    fires: list[Fire]
    after: datetime | None


@router.get("/schedules", responses={**returns(Schedules), **raises(401, 403, 422, 503)})
async def list_schedules(
    request: Request,
    caller: GlobalReader,
    after: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The schedules by their names."""
    found = list(await runtime_of(request).app.schedules(after=after, limit=limit))
    return as_json(Schedules(found, found[-1].name if len(found) == limit else None))


@router.get("/schedule/fires", responses={**returns(Fires), **READ})
async def fires(
    name: Name,
    request: Request,
    caller: GlobalReader,
    after: Annotated[Moment | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> Response:
    """What came of its last ticks."""
    app = runtime_of(request).app
    found = list(await app.schedule_fires(name, after=after, limit=limit))
    return as_json(Fires(found, found[-1].tick if len(found) == limit else None))


@router.get("/schedule", responses={**returns(Schedule), **READ})
async def get_schedule(name: Name, request: Request, caller: GlobalReader) -> Response:
    """A schedule as it is now."""
    return as_json(await runtime_of(request).app.get_schedule(name))


@router.put("/schedule", responses={**returns(Schedule), **CHANGE})
async def set_schedule(
    name: Name, given: ScheduleBody, request: Request, caller: GlobalOperator
) -> Response:
    """Change a schedule, or make one; what is left out stays.

    Options that are left out stay, too; null resets one to what the task says. `args` are replaced
    as a whole. A new task or new `args` makes the caller the `requested_by` of its jobs.
    """
    app = runtime_of(request).app
    values: dict[str, Any] = {
        field: value
        for field in given.model_fields_set - {"task", "args", "options"}
        if (value := getattr(given, field)) is not None
    }
    if (given.task, given.args, given.options) != (None, None, None):
        values["what"], values["keep"] = await _new_request(request, name, given, caller)
    if not values:
        raise Problem(422, "does-not-fit", "Nothing is to change.")
    return as_json(await app.set_schedule(name, **values, by=caller.name))


async def _new_request(
    request: Request, name: str, given: ScheduleBody, caller: Caller
) -> tuple[Any, frozenset[str]]:
    """The new request of a schedule, and the parts of its present request that stay."""
    runtime = runtime_of(request)
    now = await _current_schedule(runtime.app, name)
    task = given.task or (now.task if now else None)
    if task is None:
        told = "is required for a new schedule"
        raise Problem(422, "does-not-fit", f"task {told}", fields=[("task", told)])
    options = given.options or OptionsBody()
    is_other_call = now is None or task != now.task or given.args is not None
    args = given.args if given.args is not None else (now.args if now else {})
    if is_other_call:
        wanted = request_from(runtime.app, NewJob(task=task, args=args, options=options), caller)
    else:
        wanted = request_with_stored_args(runtime.app, task, args, options, caller)
    runtime.queue_names.expect_room([wanted], caller)
    return wanted, parts_to_keep(options.model_fields_set, is_other_call=is_other_call)


async def _current_schedule(app: Penstock, name: str) -> Schedule | None:
    try:
        return await app.get_schedule(name)
    except ScheduleNotFound:
        return None


@router.post("/schedule/pause", status_code=204, responses=READ)
async def pause(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Let no tick fire until it is resumed."""
    await runtime_of(request).app.pause_schedule(name, by=caller.name)
    return Response(status_code=204)


@router.post("/schedule/resume", status_code=204, responses=READ)
async def resume(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Let its ticks fire again."""
    await runtime_of(request).app.resume_schedule(name, by=caller.name)
    return Response(status_code=204)


@router.post("/schedule/run", status_code=202, responses={**returns(Enqueued[Any], 202), **CHANGE})
async def run(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Enqueue its job now."""
    made = await runtime_of(request).app.run_schedule(name, by=caller.name)
    return as_json(made, 202, {"location": request.url_for("get_job", id=made.id).path})


@router.post("/schedule/reset", responses={**returns(Schedule), **CHANGE})
async def reset(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Take back what was changed since the code declared it."""
    return as_json(await runtime_of(request).app.reset_schedule(name, by=caller.name))


@router.delete("/schedule", responses={**returns(Removed), **CHANGE})
async def remove(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Remove a schedule; one from code comes back with the next worker that declares it."""
    return as_json(Removed(await runtime_of(request).app.remove_schedule(name, by=caller.name)))
