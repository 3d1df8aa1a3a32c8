"""Schedules. A name may hold slashes, so it stands in the query."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec import Struct
from starlette.responses import Response

from penstock.client import Enqueued, Fire, Schedule
from penstock.client.answers import Removed
from penstock.service.answers import as_json
from penstock.service.caller import Caller
from penstock.service.enqueuing import request_from
from penstock.service.models.jobs import NewJob, OptionsBody
from penstock.service.models.settings import ScheduleBody
from penstock.service.problem import Problem, documented
from penstock.service.shapes import gives
from penstock.service.wiring import Keeper, Overseer, wiring_of
from penstock.service.wording import worded

router = APIRouter(tags=["schedules"])

# Letters and digits of any script; what `\w` means differs between those who read the document.
NAME = worded(
    r"^[\p{L}\p{N}_.:@/+-]{1,200}$",
    "a schedule's name: at most 200 letters, digits, and _ . : @ / + -",
)
Name = Annotated[str, Query(pattern=NAME)]
READ = documented(401, 403, 404, 422, 503)
CHANGE = documented(400, 401, 403, 404, 409, 413, 422, 503)


class Schedules(Struct, frozen=True):
    """Schedules by name, and what to pass as `after` for more."""

    schedules: list[Schedule]
    after: str | None


class Fires(Struct, frozen=True):
    """What came of the last ticks, the newest first."""

    fires: list[Fire]


@router.get("/schedules", responses={**gives(Schedules), **documented(401, 403, 422, 503)})
async def list_schedules(
    request: Request,
    caller: Overseer,
    after: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The schedules by their names."""
    found = list(await wiring_of(request).app.schedules(after=after, limit=limit))
    return as_json(Schedules(found, found[-1].name if len(found) == limit else None))


@router.get("/schedule/fires", responses={**gives(Fires), **READ})
async def fires(
    name: Name,
    request: Request,
    caller: Overseer,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> Response:
    """What came of its last ticks."""
    return as_json(Fires(list(await wiring_of(request).app.schedule_fires(name, limit=limit))))


@router.get("/schedule", responses={**gives(Schedule), **READ})
async def get_schedule(name: Name, request: Request, caller: Overseer) -> Response:
    """A schedule as it is now."""
    return as_json(await wiring_of(request).app.get_schedule(name))


@router.put("/schedule", responses={**gives(Schedule), **CHANGE})
async def set_schedule(
    name: Name, given: ScheduleBody, request: Request, caller: Keeper
) -> Response:
    """Change a schedule, or make one; what is left out stays."""
    app = wiring_of(request).app
    values: dict[str, Any] = {
        field: value
        for field in given.model_fields_set - {"task", "args", "options"}
        if (value := getattr(given, field)) is not None
    }
    if given.task is not None:
        values["what"] = _wanted(request, given, caller)
    elif given.args is not None or given.options is not None:
        told = "is required with args or options"
        raise Problem(422, "does-not-fit", f"task {told}", fields=[("task", told)])
    if not values:
        raise Problem(422, "does-not-fit", "Nothing is to change.")
    return as_json(await app.set_schedule(name, **values, by=caller.name))


def _wanted(request: Request, given: ScheduleBody, caller: Caller) -> Any:
    assert given.task is not None
    options = given.options or OptionsBody()
    job = NewJob(task=given.task, args=given.args or {}, options=options)
    wiring = wiring_of(request)
    wanted = request_from(wiring.app, job, caller)
    wiring.queue_names.expect_room([wanted], caller)
    return wanted


@router.post("/schedule/pause", status_code=204, responses=READ)
async def pause(name: Name, request: Request, caller: Keeper) -> Response:
    """Let no tick fire until it is resumed."""
    await wiring_of(request).app.pause_schedule(name, by=caller.name)
    return Response(status_code=204)


@router.post("/schedule/resume", status_code=204, responses=READ)
async def resume(name: Name, request: Request, caller: Keeper) -> Response:
    """Let its ticks fire again."""
    await wiring_of(request).app.resume_schedule(name, by=caller.name)
    return Response(status_code=204)


@router.post("/schedule/run", status_code=202, responses={**gives(Enqueued[Any], 202), **CHANGE})
async def run(name: Name, request: Request, caller: Keeper) -> Response:
    """Enqueue its job now."""
    made = await wiring_of(request).app.run_schedule(name, by=caller.name)
    return as_json(made, 202, {"location": request.url_for("get_job", id=made.id).path})


@router.post("/schedule/reset", responses={**gives(Schedule), **CHANGE})
async def reset(name: Name, request: Request, caller: Keeper) -> Response:
    """Take back what was changed since the code declared it."""
    return as_json(await wiring_of(request).app.reset_schedule(name, by=caller.name))


@router.delete("/schedule", responses={**gives(Removed), **CHANGE})
async def remove(name: Name, request: Request, caller: Keeper) -> Response:
    """Remove a schedule; one from code comes back with the next worker that declares it."""
    return as_json(Removed(await wiring_of(request).app.remove_schedule(name, by=caller.name)))
