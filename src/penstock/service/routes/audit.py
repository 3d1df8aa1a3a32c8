"""Routes that list the audit: who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec import Struct
from starlette.responses import Response

from penstock.groups.audit import AuditEntry
from penstock.service.dependencies import Admin, runtime_of
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns
from penstock.service.schemas import Id, Moment

router = APIRouter(prefix="/audit", tags=["access"])

Text = Annotated[str | None, Query(max_length=200)]


class Audit(Struct, frozen=True):
    """A page of the audit, newest first.

    Pass `after` to get the next page. It is null on the last one.
    """

    entries: list[AuditEntry]
    after: str | None


@router.get("", responses={**returns(Audit), **raises(401, 403, 422, 503)})
async def audit(
    request: Request,
    caller: Admin,
    actor: Text = None,
    action: Text = None,
    target: Text = None,
    tenant: Text = None,
    since: Annotated[Moment | None, Query()] = None,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List who changed what, newest first."""
    page = await runtime_of(request).app.audit(
        actor=actor, action=action, target=target, tenant=tenant, since=since,
        after=after, limit=limit,
    )  # fmt: skip
    return as_json(Audit(list(page.entries), page.after))
