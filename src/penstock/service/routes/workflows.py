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
    """Workflows, newest first."""
    client = runtime_of(request).client_of(caller)
    return as_json(await client.workflows(tenant=tenant, after=after, limit=limit))


@router.get("/{id}", responses={**returns(WorkflowStatus), **raises(401, 403, 404, 422, 503)})
async def get_workflow(id: Id, request: Request, caller: Reader) -> Response:
    """A workflow with its steps."""
    return as_json(await runtime_of(request).client_of(caller).get_workflow(id))


@router.get("/{id}/why", responses={**returns(Why), **raises(401, 403, 404, 422, 503)})
async def why(id: Id, request: Request, caller: Reader) -> Response:
    """Why a workflow has not ended: what it waits for, in sentences."""
    client = runtime_of(request).client_of(caller)
    return as_json(Why(await client.why_workflow(id)))


@router.post("/{id}/cancel", responses={**returns(Number), **CHANGE})
async def cancel(id: Id, request: Request, caller: Operator) -> Response:
    """End all its jobs that have not ended."""
    client = runtime_of(request).client_of(caller)
    ended = await client.cancel_workflow(id, f"requested by {caller.name}", by=caller.name)
    return as_json(Number(ended))


@router.post("/{id}/retry", responses={**returns(Number), **CHANGE})
async def retry(id: Id, request: Request, caller: Operator) -> Response:
    """Run again from what has failed on."""
    client = runtime_of(request).client_of(caller)
    return as_json(Number(await client.retry_workflow(id, by=caller.name)))
