"""Sources of documents."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.service.dependencies import Operator
from penstock.service.models.jobs import Id
from penstock.service.problems import documented
from penstock.service.routing import as_json, gives
from penstock_apps.knowledge.http.answers import (
    Cancelled,
    Deleted,
    SourcePage,
    SourceShown,
    Uploaded,
)
from penstock_apps.knowledge.http.calling import Change, Read
from penstock_apps.knowledge.http.progress import base_of
from penstock_apps.knowledge.http.refusing import Refusing
from penstock_apps.knowledge.http.wishes import Named

router = APIRouter(prefix="/knowledge-sources", tags=["knowledge"], route_class=Refusing)

READ: Final = documented(401, 403, 404, 422, 503)
CHANGE: Final = documented(401, 403, 404, 409, 422, 503)
GONE: Final = gives(Deleted, 202, "Gone; a job removes it.")


@router.get("", responses={**gives(SourcePage), **READ})
async def list_sources(
    library: Read,
    base: Annotated[Named | None, Query(description="By id or name.")] = None,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The sources of a tenant, or of one base, newest first."""
    within = None if base is None else (await base_of(library, base)).id
    start = None if after is None else int(after)
    async with library.transaction() as on:
        found = await library.shop.sources.list(on, library.tenant, within, start, limit)
    shown = [SourceShown.of(each) for each in found]
    return as_json(SourcePage(sources=shown, after=shown[-1].id if len(shown) == limit else None))


@router.get("/{id}", responses={**gives(SourceShown), **READ})
async def get_source(id: Id, library: Read) -> Response:
    """A source."""
    return as_json(SourceShown.of(await library.source(int(id))))


@router.post(
    "/{id}/retry", responses={**gives(Uploaded, 202, "What failed is tried again."), **CHANGE}
)
async def retry_source(id: Id, request: Request, library: Change) -> Response:
    """Bring in once more what failed, and nothing else."""
    receipt = await library.retry(int(id))
    source = await library.source(receipt.source)
    uploaded = Uploaded(
        batch=receipt.batch,
        job_count=receipt.total,
        knowledge_source_ids=[id],
        base=str(source.base),
        unchanged=0,
        refused=[],
    )
    return as_json(uploaded, 202, {"location": request.url_for("source_progress", id=id).path})


@router.post("/{id}/cancel", responses={**gives(Cancelled), **CHANGE})
async def cancel(id: Id, library: Change, caller: Operator) -> Response:
    """End what is under way; what has come in stays."""
    return as_json(
        Cancelled(cancelled=await library.cancel(int(id), f"requested by {caller.name}"))
    )


@router.delete("/{id}", responses={**GONE, **CHANGE})
async def delete_source(id: Id, library: Change) -> Response:
    """Delete a source with all its documents."""
    await library.delete_source(int(id))
    return as_json(Deleted(deleted=id), 202)
