"""Routes that list the workers, and show the whole queue at a glance."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.insights import Overview, WorkerPage
from penstock.service.dependencies import GlobalReader, runtime_of
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns
from penstock.service.schemas import Id

router = APIRouter(tags=["workers"])

READ = raises(401, 403, 422, 503)


@router.get("/workers", responses={**returns(WorkerPage), **READ})
async def list_workers(
    request: Request,
    caller: GlobalReader,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=100_000)] = 1000,
) -> Response:
    """List the workers, with the queues that they serve and their last heartbeats.

    Workers that are alive come first.
    """
    insights = await runtime_of(request).insights()
    return as_json(await insights.worker_page(limit=limit, after=after))


@router.get("/overview", responses={**returns(Overview), **READ})
async def overview(request: Request, caller: GlobalReader) -> Response:
    """Return an overview of queues, workers, running jobs, recent failures and throughput."""
    return as_json(await (await runtime_of(request).insights()).overview())
