"""Workers, what they run, and everything at one glance."""

from __future__ import annotations

from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from penstock.insights import Overview, WorkerInsight
from penstock.service.answers import as_json
from penstock.service.problem import documented
from penstock.service.shapes import gives
from penstock.service.wiring import Overseer, wiring_of

router = APIRouter(tags=["workers"])

READ = documented(401, 403, 503)


class Workers(Struct, frozen=True):
    """All that have a lease, or had one of late."""

    workers: list[WorkerInsight]


@router.get("/workers", responses={**gives(Workers), **READ})
async def list_workers(request: Request, caller: Overseer) -> Response:
    """The workers, what they serve and when they were last heard of."""
    return as_json(Workers(await (await wiring_of(request).insights()).workers()))


@router.get("/overview", responses={**gives(Overview), **READ})
async def overview(request: Request, caller: Overseer) -> Response:
    """Queues, workers, what runs, what failed last, throughput: at one glance."""
    return as_json(await (await wiring_of(request).insights()).overview())
