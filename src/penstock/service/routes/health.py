"""The route that reports health: one word, its causes and the numbers."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.errors import DatabaseLost
from penstock.insights import Health
from penstock.service.dependencies import authorize, runtime_of
from penstock.service.problems import Problem, raises
from penstock.service.routing import as_json, returns

router = APIRouter(tags=["operations"])


def _answers() -> dict[int | str, dict[str, object]]:
    """Describe the responses for OpenAPI. A queue that is down gets a 503 with the full report."""
    errors = raises(401, 403, 503)
    down = returns(Health, 503)[503]["content"]
    unavailable = errors[503]
    # The model is left out, since FastAPI would write its schema over this one.
    errors[503] = {
        "description": unavailable["description"],
        "content": {**unavailable["content"], **down},
    }
    return {**returns(Health, description="The queue is healthy or degraded."), **errors}


@router.get("/health", responses=_answers())
async def health(request: Request) -> Response:
    """Report whether the queue is healthy, degraded or down, with the causes.

    The report is at most 5 seconds old. If the queue is down, the status is 503, with the same
    document. While the database does not answer, keys cannot be checked: every caller then gets a
    503 that says only this.
    """
    operations = runtime_of(request).operations
    try:
        if await operations.readiness.database_answers():
            await authorize(request, "read")
            report = await operations.health()
            return as_json(report, 503 if report.status == "down" else 200)
    except DatabaseLost:
        pass  # The database went down since the check.
    detail = "The database does not answer."
    raise Problem(503, "database-lost", detail, about={"penstock_database_up": 0})
