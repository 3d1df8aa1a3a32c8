"""Routes that list and set limits: how many jobs run at once, and how often."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.groups.answers import Removed
from penstock.groups.settings import Limit
from penstock.insights import Limits
from penstock.service.dependencies import GlobalOperator, GlobalReader, runtime_of
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns, small_body
from penstock.service.schemas import LimitBody, changed_settings

router = APIRouter(prefix="/limits", tags=["limits"])

Key = Annotated[str, Query(min_length=1, max_length=200, examples=["openai"])]
CHANGE = raises(400, 401, 403, 413, 422, 503)


@router.get("", responses={**returns(Limits), **raises(401, 403, 422, 503)})
async def list_limits(
    request: Request,
    caller: GlobalReader,
    after: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """List the limits, with the workers that hold their slots or wait for them.

    Limits that hold up jobs come first.
    """
    insights = await runtime_of(request).insights()
    return as_json(await insights.limits(limit=limit, after=after))


@router.put("", responses={**returns(Limit), **CHANGE})
@small_body
async def set_limit(
    key: Key, body: LimitBody, request: Request, caller: GlobalOperator
) -> Response:
    """Set the limit of a key. What is left out stays as it is; null removes a value."""
    app = runtime_of(request).app
    return as_json(await app.set_limit(key, **changed_settings(body), by=caller.name))


@router.delete("", responses={**returns(Removed), **CHANGE})
async def remove_limit(key: Key, request: Request, caller: GlobalOperator) -> Response:
    """Remove the limit of a key."""
    app = runtime_of(request).app
    return as_json(Removed(await app.remove_limit(key, by=caller.name)))
