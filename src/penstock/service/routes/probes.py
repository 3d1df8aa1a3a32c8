"""The probes `/livez` and `/readyz`, for supervisors and load balancers."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from penstock.service.dependencies import runtime_of
from penstock.service.problems import Problem, raises
from penstock.service.routing import as_json, returns

router = APIRouter(tags=["operations"])


class Alive(Struct, frozen=True):
    """The process lives."""

    status: Literal["alive"] = "alive"


class Ready(Struct, frozen=True):
    """Requests may be sent."""

    status: Literal["ready"] = "ready"


@router.get("/livez", responses=returns(Alive, description="It lives."))
async def livez() -> Response:
    """The process lives and its event loop answers; the database is not asked."""
    return as_json(Alive())


@router.get("/readyz", responses=returns(Ready, description="It is ready.") | raises(503))
async def readyz(request: Request) -> Response:
    """The database answers, its schema fits, and jobs will be able to end in the next days."""
    runtime = runtime_of(request)
    if runtime.stopping.is_set():
        raise Problem(503, "not-ready", "The service is about to stop.")
    if problem := await runtime.operations.readiness.problem():
        raise Problem(503, "not-ready", problem)
    return as_json(Ready())
