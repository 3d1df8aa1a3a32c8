"""Routes that list, show and change workflows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.groups.answers import Number, Why
from penstock.groups.workflows import WorkflowPage, WorkflowStatus
from penstock.service.dependencies import Operator, Reader, runtime_of
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns
from penstock.service.schemas import Id

router = APIRouter(prefix="/workflows", tags=["workflows"])

CHANGE = raises(401, 403, 404, 409, 422, 503)


@router.get("", responses={**returns(WorkflowPage), **raises(401, 403, 422, 503)})
async def list_workflows(
    request: Request,
    caller: Reader,
    tenant: Annotated[str | None, Query(max_length=200)] = None,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List workflows, newest first."""
    client = runtime_of(request).client_of(caller)
    return as_json(await client.workflows(tenant=tenant, after=after, limit=limit))


@router.get("/{id}", responses={**returns(WorkflowStatus), **raises(401, 403, 404, 422, 503)})
async def get_workflow(id: Id, request: Request, caller: Reader) -> Response:
    """Return a workflow with its steps."""
    return as_json(await runtime_of(request).client_of(caller).get_workflow(id))


@router.get("/{id}/why", responses={**returns(Why), **raises(401, 403, 404, 422, 503)})
async def why(id: Id, request: Request, caller: Reader) -> Response:
    """Explain in sentences why a workflow has not ended, and what it waits for."""
    client = runtime_of(request).client_of(caller)
    return as_json(Why(await client.why_workflow(id)))


@router.post("/{id}/cancel", responses={**returns(Number), **CHANGE})
async def cancel(id: Id, request: Request, caller: Operator) -> Response:
    """Cancel all jobs of a workflow that have not ended."""
    client = runtime_of(request).client_of(caller)
    ended = await client.cancel_workflow(id, f"requested by {caller.name}", by=caller.name)
    return as_json(Number(ended))


@router.post("/{id}/retry", responses={**returns(Number), **CHANGE})
async def retry(id: Id, request: Request, caller: Operator) -> Response:
    """Run the failed and cancelled jobs of a workflow again, in their order."""
    client = runtime_of(request).client_of(caller)
    return as_json(Number(await client.retry_workflow(id, by=caller.name)))
