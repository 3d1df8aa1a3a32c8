"""Routes that enqueue, list, show and change jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.connect.enqueue import Enqueued, Page
from penstock.errors import JobNotFound
from penstock.groups.answers import Changed, Why
from penstock.job import Job, State
from penstock.service.dependencies import Enqueuer, Operator, Reader, runtime_of
from penstock.service.enqueue import IdempotencyKey, request_from, with_idempotency_key
from penstock.service.problems import raises
from penstock.service.routing import as_json, idempotent, returns
from penstock.service.schemas import Id, NewJob

router = APIRouter(prefix="/jobs", tags=["jobs"])

Text = Annotated[str | None, Query(min_length=1, max_length=500)]
STORED = "The job is stored. The header `location` has its address."
READ = raises(401, 403, 422, 503)
WRITE = raises(400, 401, 403, 409, 413, 422, 429, 503)
CHANGE = raises(401, 403, 404, 409, 422, 503)


@router.post("", status_code=202, responses={**returns(Enqueued[Any], 202, STORED), **WRITE})
@idempotent
async def enqueue(
    body: NewJob, request: Request, caller: Enqueuer, idempotency_key: IdempotencyKey = None
) -> Response:
    """Enqueue a job. Once you get the answer, the job is durably stored."""
    runtime = runtime_of(request)
    [job_request] = with_idempotency_key(
        [request_from(runtime.app, body, caller)], idempotency_key, body
    )
    runtime.queue_names.expect_room([job_request], caller)
    job = await runtime.group_commit.enqueue(job_request, caller.tenant)
    return as_json(job, 202, {"location": request.url_for("get_job", id=job.id).path})


@router.get("", responses={**returns(Page), **READ})
async def list_jobs(
    request: Request,
    caller: Reader,
    state: Annotated[list[State] | None, Query(max_length=7)] = None,
    queue: Text = None,
    task: Text = None,
    tenant: Annotated[str | None, Query(max_length=200)] = None,
    subject: Text = None,
    tag: Text = None,
    text: Text = None,
    batch: Annotated[Id | None, Query()] = None,
    workflow: Annotated[Id | None, Query()] = None,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the jobs that match all filters, newest first.

    `text` finds jobs whose arguments contain it, in upper or lower case.
    """
    client = runtime_of(request).client_of(caller)
    page = await client.list(
        state=state, queue=queue, task=task, tenant=tenant, subject=subject, tag=tag, text=text,
        batch=batch, workflow=workflow, after=after, limit=limit,
    )  # fmt: skip
    return as_json(page)


@router.get("/{id}", name="get_job", responses={**returns(Job), **raises(404), **READ})
async def get_job(id: Id, request: Request, caller: Reader) -> Response:
    """Return a job in its present state."""
    return as_json(await runtime_of(request).client_of(caller).get(id))


@router.get("/{id}/why", responses={**returns(Why), **raises(401, 403, 404, 422, 503)})
async def why(id: Id, request: Request, caller: Reader) -> Response:
    """Explain in sentences why a job has not ended, and what it waits for."""
    client = runtime_of(request).client_of(caller)
    return as_json(Why(await client.why(id)))


@router.post("/{id}/cancel", responses={**returns(Changed), **CHANGE})
async def cancel(id: Id, request: Request, caller: Operator) -> Response:
    """Cancel a job now, even if it is running."""
    client = runtime_of(request).client_of(caller)
    return _changed(id, await client.cancel_many([id], f"requested by {caller.name}"))


@router.post("/{id}/retry", responses={**returns(Changed), **CHANGE})
async def retry(id: Id, request: Request, caller: Operator) -> Response:
    """Run a job that has ended again, under the same id."""
    return _changed(id, await runtime_of(request).client_of(caller).retry_many([id]))


@router.post("/{id}/unblock", responses={**returns(Changed), **CHANGE})
async def unblock(id: Id, request: Request, caller: Operator) -> Response:
    """Let a blocked job run now, without waiting for other jobs any longer."""
    client = runtime_of(request).client_of(caller)
    return _changed(id, await client.unblock_many([id], by=caller.name))


@router.delete("/{id}", responses={**returns(Changed), **CHANGE})
async def delete(id: Id, request: Request, caller: Operator) -> Response:
    """Delete a job that is not running, with everything stored about it."""
    return _changed(id, await runtime_of(request).client_of(caller).delete_many([id]))


def _changed(id: str, answers: dict[str, str]) -> Response:
    if (state := answers[id]) == "missing":
        raise JobNotFound(id)
    return as_json(Changed(id, state))
