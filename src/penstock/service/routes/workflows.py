"""Workflows."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.groups.answers import Number, Why
from penstock.groups.workflows import WorkflowPage, WorkflowStatus
from penstock.service.dependencies import Operator, Reader, wiring_of
from penstock.service.problems import documented
from penstock.service.routing import as_json, gives
from penstock.service.schemas import Id

router = APIRouter(prefix="/workflows", tags=["workflows"])

CHANGE = documented(401, 403, 404, 409, 422, 503)


@router.get("", responses={**gives(WorkflowPage), **documented(401, 403, 422, 503)})
async def list_workflows(
    request: Request,
    caller: Reader,
    tenant: Annotated[str | None, Query(max_length=200)] = None,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Workflows, newest first."""
    client = wiring_of(request).client_of(caller)
    return as_json(await client.workflows(tenant=tenant, after=after, limit=limit))


@router.get("/{id}", responses={**gives(WorkflowStatus), **documented(401, 403, 404, 422, 503)})
async def get_workflow(id: Id, request: Request, caller: Reader) -> Response:
    """A workflow with its steps."""
    return as_json(await wiring_of(request).client_of(caller).get_workflow(id))


@router.get("/{id}/why", responses={**gives(Why), **documented(401, 403, 404, 422, 503)})
async def why(id: Id, request: Request, caller: Reader) -> Response:
    """Why a workflow has not ended: what it waits for, in sentences."""
    client = wiring_of(request).client_of(caller)
    return as_json(Why(await client.why_workflow(id)))


@router.post("/{id}/cancel", responses={**gives(Number), **CHANGE})
async def cancel(id: Id, request: Request, caller: Operator) -> Response:
    """End all its jobs that have not ended."""
    client = wiring_of(request).client_of(caller)
    ended = await client.cancel_workflow(id, f"requested by {caller.name}", by=caller.name)
    return as_json(Number(ended))


@router.post("/{id}/retry", responses={**gives(Number), **CHANGE})
async def retry(id: Id, request: Request, caller: Operator) -> Response:
    """Run again from what has failed on."""
    client = wiring_of(request).client_of(caller)
    return as_json(Number(await client.retry_workflow(id, by=caller.name)))
