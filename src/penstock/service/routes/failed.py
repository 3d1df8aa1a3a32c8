"""Routes that list, summarise, retry and delete failed jobs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from penstock.connect.enqueue import Page
from penstock.groups.failed import DeadSummary, Purged, Redriven
from penstock.service.dependencies import Operator, Reader, runtime_of
from penstock.service.problems import Problem, described, raises
from penstock.service.routing import as_json, returns
from penstock.service.schemas import Id, Moment, Name, QueueName, StrictBody, Subject, Tag, Tenant


class DeadBody(StrictBody):
    """A filter for failed jobs. A job has to match all fields that are set."""

    queue: QueueName | None = None
    task: Name | None = None
    tenant: Tenant | None = None
    subject: Subject | None = None
    tag: Tag | None = None
    reason: Name | None = None
    error: Name | None = None
    batch: Id | None = None
    since: Moment | None = None
    until: Moment | None = None


class Chosen(StrictBody):
    """Failed jobs, selected by their ids or by a filter.

    A call handles at most `limit` jobs, and the earliest failures first.
    """

    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None
    filter: DeadBody | None = None
    limit: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 10_000


class Redrive(Chosen):
    rate: Annotated[str, Field(max_length=50, examples=["100/minute"])] | None = None


router = APIRouter(prefix="/dead", tags=["dead letters"])

AFTER_PATTERN = described(r"^[0-9]{1,17}-[0-9]{1,18}$", "the `after` of the page before")
Text = Annotated[str | None, Query(min_length=1, max_length=500)]
READ = raises(401, 403, 422, 503)
CHANGE = raises(400, 401, 403, 409, 413, 422, 503)


@router.get("", responses={**returns(Page), **READ})
async def list_dead(
    request: Request,
    caller: Reader,
    queue: Text = None,
    task: Text = None,
    tenant: Annotated[str | None, Query(max_length=200)] = None,
    subject: Text = None,
    tag: Text = None,
    reason: Text = None,
    error: Text = None,
    batch: Annotated[Id | None, Query()] = None,
    since: Moment | None = None,
    until: Moment | None = None,
    after: Annotated[str | None, Query(pattern=AFTER_PATTERN)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the failed jobs that match all filters. The latest failures come first."""
    page = await runtime_of(request).client_of(caller).dead_letters(
        queue=queue, task=task, tenant=tenant, subject=subject, tag=tag, reason=reason,
        error=error, batch=batch, since=since, until=until, after=after, limit=limit,
    )  # fmt: skip
    return as_json(page)


@router.get("/summary", responses={**returns(DeadSummary), **READ})
async def summary(
    request: Request, caller: Reader, tenant: Annotated[str | None, Query(max_length=200)] = None
) -> Response:
    """Count failed jobs by task, reason and type of error. The largest groups come first."""
    return as_json(await runtime_of(request).client_of(caller).dead_summary(tenant=tenant))


@router.post("/redrive", responses={**returns(Redriven), **CHANGE})
async def redrive(body: Redrive, request: Request, caller: Operator) -> Response:
    """Run failed jobs again, under the same ids and with fresh attempts.

    With a `rate`, the jobs are scheduled at that rate. A call handles at most `limit` jobs: repeat
    it until `number` in the answer is 0.
    """
    client = runtime_of(request).client_of(caller)
    ids, filters = _selection(body)
    redriven = await client.redrive(
        *ids, rate=body.rate, limit=body.limit, by=caller.name, **filters
    )
    return as_json(redriven)


@router.post("/purge", responses={**returns(Purged), **CHANGE})
async def purge(body: Chosen, request: Request, caller: Operator) -> Response:
    """Delete failed jobs, with everything stored about them.

    A call handles at most `limit` jobs: repeat it until `number` in the answer is 0.
    """
    client = runtime_of(request).client_of(caller)
    ids, filters = _selection(body)
    return as_json(await client.purge(*ids, limit=body.limit, by=caller.name, **filters))


def _selection(body: Chosen) -> tuple[list[str], dict[str, Any]]:
    """Return the ids and the filters of a body. Raises a Problem unless exactly one is set."""
    filters = body.filter.model_dump(exclude_none=True) if body.filter else {}
    if bool(body.ids) == bool(filters):
        allowed = "either ids, or a filter with at least one field"
        raise Problem(422, "does-not-fit", f"This takes {allowed}.", fields=[("ids", allowed)])
    return body.ids or [], filters
