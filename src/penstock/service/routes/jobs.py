"""Jobs: enqueue, look, change."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.job import State
from penstock.service.answers import as_json
from penstock.service.models.jobs import (
    AskedStates,
    Changed,
    EnqueuedModel,
    Id,
    JobModel,
    JobPage,
    NewJob,
    States,
)
from penstock.service.problem import documented
from penstock.service.wiring import Enqueuer, Operator, Reader, wiring_of
from penstock.tasks import Request as JobRequest

router = APIRouter(prefix="/jobs", tags=["jobs"])

Text = Annotated[str | None, Query(max_length=500)]


@router.post(
    "",
    status_code=202,
    response_model=EnqueuedModel,
    responses=documented(400, 401, 403, 409, 413, 422, 503),
)
async def enqueue(given: NewJob, request: Request, caller: Enqueuer) -> Response:
    """Enqueue a job. It is stored when this answers; `location` is where to look for it."""
    wiring = wiring_of(request)
    [made] = await wiring.client_of(caller).enqueue_many([_prepared(wiring.app, given, caller)])
    where = request.url_for("get_job", id=made.id).path
    return as_json({"id": made.id, "duplicate": made.duplicate}, 202, {"location": where})


def _prepared(app: Any, given: NewJob, caller: Any) -> JobRequest[Any]:
    """The request for a job, checked against the task's signature."""
    task = app.tasks.get(given.task)
    values = {
        name: value
        for name, value in given.options.model_dump(exclude_unset=True).items()
        if value is not None
    }
    values.setdefault("tenant", caller.tenant or "")
    return task.options(requested_by=caller.name, **values).prepare(**given.args)  # type: ignore[no-any-return]


@router.get("", response_model=JobPage, responses=documented(401, 403, 422, 503))
async def list_jobs(
    request: Request,
    caller: Reader,
    state: Annotated[list[State] | None, Query()] = None,
    queue: Text = None,
    task: Text = None,
    tenant: Text = None,
    subject: Text = None,
    tag: Text = None,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Jobs by filter, newest first."""
    page = await wiring_of(request).client_of(caller).list(
        state=state, queue=queue, task=task, tenant=tenant, subject=subject, tag=tag,
        after=after, limit=limit,
    )  # fmt: skip
    return as_json({"jobs": page.jobs, "after": page.after})


@router.post("/states", response_model=States, responses=documented(400, 401, 403, 422, 503))
async def states(given: AskedStates, request: Request, caller: Reader) -> Response:
    """State and progress of up to 1,000 jobs; those not found are left out."""
    return as_json({"states": await wiring_of(request).client_of(caller).states(given.ids)})


@router.get(
    "/{id}", name="get_job", response_model=JobModel, responses=documented(401, 403, 404, 422, 503)
)
async def get_job(id: Id, request: Request, caller: Reader) -> Response:
    """A job as it is now."""
    return as_json(await wiring_of(request).client_of(caller).get(id))


@router.post(
    "/{id}/cancel", response_model=Changed, responses=documented(401, 403, 404, 409, 422, 503)
)
async def cancel(id: Id, request: Request, caller: Operator) -> Response:
    """End a job now, running or not."""
    client = wiring_of(request).client_of(caller)
    return _changed(id, await client.cancel_many([id], f"requested by {caller.name}"))


@router.post(
    "/{id}/retry", response_model=Changed, responses=documented(401, 403, 404, 409, 422, 503)
)
async def retry(id: Id, request: Request, caller: Operator) -> Response:
    """Run a job again."""
    return _changed(id, await wiring_of(request).client_of(caller).retry_many([id]))


@router.delete("/{id}", response_model=Changed, responses=documented(401, 403, 404, 409, 422, 503))
async def delete(id: Id, request: Request, caller: Operator) -> Response:
    """Erase a job that does not run."""
    return _changed(id, await wiring_of(request).client_of(caller).delete_many([id]))


def _changed(id: str, answers: dict[str, str]) -> Response:
    from penstock.errors import JobNotFound

    if (state := answers[id]) == "missing":
        raise JobNotFound(id)
    return as_json({"id": id, "state": state})
