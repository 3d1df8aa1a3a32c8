"""Routes that list and change schedules. A name may contain slashes, so it is a query parameter."""

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

# Letters and digits of any script. `\w` is not used: its meaning differs between the regex engines
# of those who read the OpenAPI document.
NAME_PATTERN = described(
    r"^[\p{L}\p{N}_.:@/+-]{1,200}$",
    "a schedule's name: at most 200 letters, digits, and _ . : @ / + -",
)
Name = Annotated[str, Query(pattern=NAME_PATTERN)]
READ = raises(401, 403, 404, 422, 503)
CHANGE = raises(400, 401, 403, 404, 409, 413, 422, 503)


class Schedules(Struct, frozen=True):
    """A page of schedules by name.

    Pass `after` to get the next page. It is null on the last one.
    """

    schedules: list[Schedule]
    after: str | None


class Fires(Struct, frozen=True):
    """The results of a schedule's last ticks, newest first.

    Pass `after` to get the next page. It is null on the last one.
    """

    fires: list[Fire]
    after: datetime | None


@router.get("/schedules", responses={**returns(Schedules), **raises(401, 403, 422, 503)})
async def list_schedules(
    request: Request,
    caller: GlobalReader,
    after: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the schedules by name."""
    schedules = list(await runtime_of(request).app.schedules(after=after, limit=limit))
    return as_json(Schedules(schedules, schedules[-1].name if len(schedules) == limit else None))


@router.get("/schedule/fires", responses={**returns(Fires), **READ})
async def fires(
    name: Name,
    request: Request,
    caller: GlobalReader,
    after: Annotated[Moment | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> Response:
    """List the results of a schedule's last ticks, newest first."""
    app = runtime_of(request).app
    fires = list(await app.schedule_fires(name, after=after, limit=limit))
    return as_json(Fires(fires, fires[-1].tick if len(fires) == limit else None))


@router.get("/schedule", responses={**returns(Schedule), **READ})
async def get_schedule(name: Name, request: Request, caller: GlobalReader) -> Response:
    """Return a schedule in its present state."""
    return as_json(await runtime_of(request).app.get_schedule(name))


@router.put("/schedule", responses={**returns(Schedule), **CHANGE})
async def set_schedule(
    name: Name, body: ScheduleBody, request: Request, caller: GlobalOperator
) -> Response:
    """Change or create a schedule. Fields that are left out stay as they are.

    Options that are left out stay as they are, too; null resets an option to what the task
    declares. `args` are replaced as a whole. If the call sets a new task or new `args`, its caller
    becomes the `requested_by` of the schedule's jobs.
    """
    app = runtime_of(request).app
    values: dict[str, Any] = {
        field: value
        for field in body.model_fields_set - {"task", "args", "options"}
        if (value := getattr(body, field)) is not None
    }
    if (body.task, body.args, body.options) != (None, None, None):
        values["what"], values["keep"] = await _new_request(request, name, body, caller)
    if not values:
        raise Problem(422, "does-not-fit", "There is nothing to change.")
    return as_json(await app.set_schedule(name, **values, by=caller.name))


async def _new_request(
    request: Request, name: str, body: ScheduleBody, caller: Caller
) -> tuple[Any, frozenset[str]]:
    """Return the new request of a schedule, and which parts of the present request to keep."""
    runtime = runtime_of(request)
    current = await _current_schedule(runtime.app, name)
    task = body.task or (current.task if current else None)
    if task is None:
        problem = "is required for a new schedule"
        raise Problem(422, "does-not-fit", f"task {problem}", fields=[("task", problem)])
    options = body.options or OptionsBody()
    is_other_call = current is None or task != current.task or body.args is not None
    args = body.args if body.args is not None else (current.args if current else {})
    if is_other_call:
        job = NewJob(task=task, args=args, options=options)
        job_request = request_from(runtime.app, job, caller)
    else:
        job_request = request_with_stored_args(runtime.app, task, args, options, caller)
    runtime.queue_names.expect_room([job_request], caller)
    return job_request, parts_to_keep(options.model_fields_set, is_other_call=is_other_call)


async def _current_schedule(app: Penstock, name: str) -> Schedule | None:
    try:
        return await app.get_schedule(name)
    except ScheduleNotFound:
        return None


@router.post("/schedule/pause", status_code=204, responses=READ)
async def pause(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Pause a schedule, so that no tick fires until it is resumed."""
    await runtime_of(request).app.pause_schedule(name, by=caller.name)
    return Response(status_code=204)


@router.post("/schedule/resume", status_code=204, responses=READ)
async def resume(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Resume a schedule. It fires again from its next tick on."""
    await runtime_of(request).app.resume_schedule(name, by=caller.name)
    return Response(status_code=204)


@router.post("/schedule/run", status_code=202, responses={**returns(Enqueued[Any], 202), **CHANGE})
async def run(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Enqueue the job of a schedule now, in addition to its ticks."""
    job = await runtime_of(request).app.run_schedule(name, by=caller.name)
    return as_json(job, 202, {"location": request.url_for("get_job", id=job.id).path})


@router.post("/schedule/reset", responses={**returns(Schedule), **CHANGE})
async def reset(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Reset a schedule to what the code declares."""
    return as_json(await runtime_of(request).app.reset_schedule(name, by=caller.name))


@router.delete("/schedule", responses={**returns(Removed), **CHANGE})
async def remove(name: Name, request: Request, caller: GlobalOperator) -> Response:
    """Remove a schedule. Its jobs stay.

    A schedule from code comes back with the next worker that declares it: pause it instead.
    """
    return as_json(Removed(await runtime_of(request).app.remove_schedule(name, by=caller.name)))
