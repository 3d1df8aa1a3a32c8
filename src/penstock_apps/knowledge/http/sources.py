"""The routes of sources, and of the progress of a source, a batch, a base or a tenant."""

from __future__ import annotations

import time
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Final, cast

import msgspec
from fastapi import APIRouter, Path, Query, Request
from msgspec.structs import replace
from starlette.responses import Response

from penstock import BatchNotFound, BatchStatus, Present
from penstock.app.application import ReadSnapshots
from penstock.service.dependencies import Operator, runtime_of
from penstock.service.live.streams import open_stream
from penstock.service.problems import Problem, described, raises
from penstock.service.routing import as_json, returns, streams_events
from penstock.service.schemas import Id
from penstock_apps.knowledge.errors import NotFound
from penstock_apps.knowledge.http.answers import (
    Cancelled,
    Deleted,
    DocumentShown,
    KnowledgeProgress,
    SourcePage,
    SourceProgress,
    SourceShown,
    Uploaded,
)
from penstock_apps.knowledge.http.bodies import PLAIN, Named
from penstock_apps.knowledge.http.routing import Change, KnowledgeRoute, Read
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.counts import Counts, CountSnapshots
from penstock_apps.knowledge.store.tables import Connection

SOURCE: Final = "knowledge-source"
DOCUMENT: Final = "document"
ENDED: Final = frozenset({"completed", "skipped", "failed", "cancelled"})
EVENTS: Final = {"text/event-stream": {"schema": {"type": "string"}}}


def subjects(runtime: KnowledgeRuntime) -> Mapping[str, ReadSnapshots]:
    """Return, for each kind of subject, the function that reads its snapshots for live updates."""
    return {SOURCE: partial(_sources, runtime), DOCUMENT: partial(_documents, runtime)}


def wants_events(request: Request) -> bool:
    """Return whether the client asks for a stream of events."""
    return "text/event-stream" in request.headers.get("accept", "")


async def stream_subject(request: Request, library: Library, kind: str, id: int) -> Response:
    """Stream the changes of a subject. The caller must first check that the tenant owns it."""
    hub = runtime_of(request).hub
    # Callers that are not confined to a tenant share one subscription.
    tenant = library.tenant if library.confined else None
    seen = request.headers.get("last-event-id", "")
    return await open_stream(hub, tenant, hub.parse_subject(f"{kind}/{id}"), seen, {})


async def _sources(
    runtime: KnowledgeRuntime, tenant: str | None, ids: Sequence[str]
) -> dict[str, Present]:
    async with _transaction_as(runtime, tenant) as on:
        sources = await CountSnapshots(runtime.tables).sources(on, tenant, [int(id) for id in ids])
    under_way = {each.batch for each in sources if each.counts.state == "processing"} - {None}
    batches = await runtime.app.present("batch", sorted(map(str, under_way))) if under_way else {}
    snapshots = {}
    for each in sources:
        batch = batches.get(str(each.batch))
        eta = cast(BatchStatus, batch.state).eta if batch else None
        progress = SourceProgress.of(
            each.counts,
            eta,
            source=str(each.id),
            name=each.name,
            batch=each.batch,
            requested_by=each.requested_by,
        )
        is_final = each.ended_at is not None and progress.state != "processing"
        snapshots[str(each.id)] = _present(progress, replace(progress, eta=None), is_final)
    return snapshots


async def _documents(
    runtime: KnowledgeRuntime, tenant: str | None, ids: Sequence[str]
) -> dict[str, Present]:
    async with _transaction_as(runtime, tenant) as on:
        documents = await CountSnapshots(runtime.tables).documents(
            on, tenant, [int(id) for id in ids]
        )
    shown = {str(each.id): DocumentShown.of(each) for each in documents}
    return {id: _present(each, each, each.state in ENDED) for id, each in shown.items()}


@asynccontextmanager
async def _transaction_as(
    runtime: KnowledgeRuntime, tenant: str | None
) -> AsyncIterator[Connection]:
    opening = (
        runtime.tables.transaction_of_all()
        if tenant is None
        else runtime.tables.transaction(tenant, confined=True)
    )
    async with opening as on:
        yield on


def _present(state: Any, facts: Any, is_final: bool) -> Present:
    """Make a snapshot of `state`. Its version is made of the time and a digest of `facts`.

    Clients get an update if the digest changes, so `facts` should leave out values such as the eta,
    which always changes.
    """
    digest = zlib.crc32(msgspec.json.encode([facts, is_final]))
    version = f"{time.time_ns() // 1000}.0-{digest:08x}"
    return Present(version=version, state=state, is_final=is_final)


router_progress = APIRouter(tags=["knowledge"], route_class=KnowledgeRoute)

READ: Final = raises(401, 403, 404, 422, 503)
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

BaseName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        description="A knowledge base by its id or its name.",
    ),
]
SINCE = described(
    r"^[1-9][0-9]{0,4}[smhd]$",
    "a number with s, m, h or d for seconds, minutes, hours or days, such as 24h",
)
Since = Annotated[str | None, Query(pattern=SINCE, examples=["24h"])]


def _live() -> dict[int | str, dict[str, Any]]:
    answers = returns(
        SourceProgress,
        200,
        "The state as JSON, or as a stream of events with the whole state after each change.",
    )
    answers[200]["content"] |= EVENTS
    answers[204] = {
        "description": "The client has already seen the final state, so it need not connect again."
    }
    return answers


@router_progress.get("/knowledge-sources/{id}/progress", responses={**_live(), **READ})
@streams_events
async def source_progress(id: Id, request: Request, library: Read) -> Response:
    """Count the documents of a source by state: once, or live for `Accept: text/event-stream`.

    Each event has the whole state with its version, as at `/live/knowledge-source/{id}`.
    """
    progress = await progress_of(library, int(id))
    if wants_events(request):
        return await stream_subject(request, library, SOURCE, int(id))
    return as_json(progress)


@router_progress.get(
    "/knowledge-bases/{id}/progress", responses={**returns(KnowledgeProgress), **READ}
)
async def base_progress(id: BaseName, library: Read, since: Since = None) -> Response:
    """Count the documents of a knowledge base by state.

    With `since`, only documents that were added in that time are counted, such as in the last
    `24h`.
    """
    base = await base_of(library, id)
    counts = await library.progress(base=base.id, since=_parse_duration(since))
    return as_json(KnowledgeProgress.of(counts))


@router_progress.get("/knowledge-progress", responses={**returns(KnowledgeProgress), **READ})
async def whole_progress(
    library: Read, batch: Annotated[Id | None, Query()] = None, since: Since = None
) -> Response:
    """Count the documents of a tenant by state.

    With `since`, only documents that were added in that time are counted, such as in the last
    `24h`. With `batch`, only the documents of that batch are counted.
    """
    if batch is None:
        return as_json(KnowledgeProgress.of(await library.progress(since=_parse_duration(since))))
    if since is not None:
        message = "A batch is counted as a whole: leave out `since`, or `batch`."
        raise Problem(422, "does-not-fit", message, fields=[("query.since", message)])
    status = await library.client.get_batch(batch)
    if status.tenant != library.tenant:
        raise BatchNotFound(batch)
    async with library.transaction() as on:
        skipped = await library.runtime.counters.count_skipped(on, library.tenant, batch)
    return as_json(KnowledgeProgress.of(_counts(status, skipped), status.eta))


async def base_of(library: Library, name: str) -> Base:
    """Return a base by its id or its name; raise NotFound."""
    if name.isdecimal() and len(name) > 18:
        raise NotFound("knowledge base", name)
    return await library.base(name)


async def progress_of(library: Library, id: int) -> SourceProgress:
    """Return the progress of a source."""
    source = await library.source(id)
    counts = await library.progress(source=id)
    eta = await _eta(library, source.batch) if counts.state == "processing" else None
    return SourceProgress.of(
        counts,
        eta,
        source=str(id),
        name=source.name,
        batch=source.batch,
        requested_by=source.requested_by,
    )


async def _eta(library: Library, batch: str | None) -> float | None:
    """Return how many seconds the newest batch of a source still needs, or None if nobody can say.

    That batch has most of the source's pending jobs, so it stands for all of them.
    """
    if batch is None:
        return None
    try:
        return (await library.client.get_batch(batch)).eta
    except BatchNotFound:
        return None


def _counts(batch: BatchStatus, skipped: int) -> Counts:
    """Count the documents of a batch by state, from the counts of its jobs.

    The job of a skipped document completes, so `skipped` is subtracted from the completed jobs. It
    was read later than `batch`, so it can be larger.
    """
    skipped = min(skipped, batch.completed)
    return Counts(
        total=batch.total,
        pending=batch.pending - batch.running,
        processing=batch.running,
        completed=batch.completed - skipped,
        skipped=skipped,
        failed=batch.failed,
        cancelled=batch.cancelled,
    )


def _parse_duration(text: str | None) -> timedelta | None:
    return None if text is None else timedelta(**{UNITS[text[-1]]: int(text[:-1])})


router_sources = APIRouter(
    prefix="/knowledge-sources", tags=["knowledge"], route_class=KnowledgeRoute
)

CHANGE: Final = raises(401, 403, 404, 409, 422, 503)
GONE: Final = returns(Deleted, 202, "It is deleted and no longer found. A job removes its data.")


@router_sources.get("", responses={**returns(SourcePage), **READ})
async def list_sources(
    library: Read,
    base: Annotated[
        Named | None, Query(description="The id or the name of a knowledge base.")
    ] = None,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the sources of a tenant or of one knowledge base, newest first."""
    within = None if base is None else (await base_of(library, base)).id
    start = None if after is None else int(after)
    async with library.transaction() as on:
        sources = await library.runtime.sources.list(on, library.tenant, within, start, limit)
    shown = [SourceShown.of(each) for each in sources]
    return as_json(SourcePage(sources=shown, after=shown[-1].id if len(shown) == limit else None))


@router_sources.get("/{id}", responses={**returns(SourceShown), **READ})
async def get_source(id: Id, library: Read) -> Response:
    """Return a source."""
    return as_json(SourceShown.of(await library.source(int(id))))


@router_sources.post(
    "/{id}/retry",
    responses={
        **returns(Uploaded, 202, "The failed and cancelled documents are ingested again."),
        **CHANGE,
    },
)
async def retry_source(id: Id, request: Request, library: Change) -> Response:
    """Ingest the failed and cancelled documents of a source again, and no others."""
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


@router_sources.post("/{id}/cancel", responses={**returns(Cancelled), **CHANGE})
async def cancel(id: Id, library: Change, caller: Operator) -> Response:
    """Cancel the unfinished documents of a source. Those that have been ingested stay."""
    return as_json(
        Cancelled(cancelled=await library.cancel(int(id), f"requested by {caller.name}"))
    )


@router_sources.delete("/{id}", responses={**GONE, **CHANGE})
async def delete_source(id: Id, library: Change) -> Response:
    """Delete a source with all its documents."""
    await library.delete_source(int(id))
    return as_json(Deleted(deleted=id), 202)
