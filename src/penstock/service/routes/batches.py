"""Routes that list, show and change batches."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.groups.answers import Number, Why
from penstock.groups.batches import BatchPage, BatchState, BatchStatus
from penstock.groups.failed import Redriven
from penstock.service.dependencies import Operator, Reader, runtime_of
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns
from penstock.service.schemas import Id

router = APIRouter(prefix="/batches", tags=["batches"])

READ = raises(401, 403, 404, 422, 503)
CHANGE = raises(401, 403, 404, 409, 422, 503)


@router.get("", responses={**returns(BatchPage), **raises(401, 403, 422, 503)})
async def list_batches(
    request: Request,
    caller: Reader,
    state: BatchState | None = None,
    name: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    tenant: Annotated[str | None, Query(max_length=200)] = None,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List batches, newest first."""
    client = runtime_of(request).client_of(caller)
    page = await client.batches(state=state, name=name, tenant=tenant, after=after, limit=limit)
    return as_json(page)


@router.get("/{id}", responses={**returns(BatchStatus), **READ})
async def get_batch(id: Id, request: Request, caller: Reader) -> Response:
    """Return a batch in its present state, with exact counts."""
    return as_json(await runtime_of(request).client_of(caller).get_batch(id))


@router.get("/{id}/why", responses={**returns(Why), **raises(401, 403, 404, 422, 503)})
async def why(id: Id, request: Request, caller: Reader) -> Response:
    """Explain in sentences why a batch has not ended, and what it waits for."""
    client = runtime_of(request).client_of(caller)
    return as_json(Why(await client.why_batch(id)))


@router.post("/{id}/close", responses={**returns(BatchStatus), **CHANGE})
async def close(id: Id, request: Request, caller: Operator) -> Response:
    """Close a batch, so that no jobs can be added except by its own running jobs.

    It finishes with its last job.
    """
    client = runtime_of(request).client_of(caller)
    await client.close_batch(id, by=caller.name)
    return as_json(await client.get_batch(id))


@router.post("/{id}/cancel", responses={**returns(Number), **CHANGE})
async def cancel(id: Id, request: Request, caller: Operator) -> Response:
    """Close a batch, and cancel all of its jobs that have not ended."""
    client = runtime_of(request).client_of(caller)
    ended = await client.cancel_batch(id, f"requested by {caller.name}", by=caller.name)
    return as_json(Number(ended))


@router.post("/{id}/retry", responses={**returns(Redriven), **CHANGE})
async def retry(
    id: Id,
    request: Request,
    caller: Operator,
    rate: Annotated[str | None, Query(max_length=50, examples=["100/minute"])] = None,
) -> Response:
    """Run the failed jobs of a batch again, spread over time if you give a `rate`."""
    client = runtime_of(request).client_of(caller)
    return as_json(await client.retry_batch(id, rate=rate, by=caller.name))
