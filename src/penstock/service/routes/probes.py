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
    """The process is running."""

    status: Literal["alive"] = "alive"


class Ready(Struct, frozen=True):
    """The service is ready for requests."""

    status: Literal["ready"] = "ready"


@router.get("/livez", responses=returns(Alive, description="The process is running."))
async def livez() -> Response:
    """Return 200 while the process runs and its event loop answers.

    This does not use the database.
    """
    return as_json(Alive())


@router.get(
    "/readyz",
    responses=returns(Ready, description="The service is ready for requests.") | raises(503),
)
async def readyz(request: Request) -> Response:
    """Return 200 if the service is ready for requests.

    It is ready if the database answers, its schema fits this version of Penstock, and jobs will be
    able to end in the next days.
    """
    runtime = runtime_of(request)
    if runtime.stopping.is_set():
        raise Problem(503, "not-ready", "The service is about to stop.")
    if problem := await runtime.operations.readiness.problem():
        raise Problem(503, "not-ready", problem)
    return as_json(Ready())
