"""How far it is: a source, a base, a batch, all of a tenant."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from penstock import BatchNotFound, BatchStatus
from penstock.service.models.jobs import Id
from penstock.service.problems import Problem, documented, worded
from penstock.service.routing import as_json, gives, gives_events
from penstock_apps.knowledge.errors import NotFound
from penstock_apps.knowledge.http.answers import KnowledgeProgress, SourceProgress
from penstock_apps.knowledge.http.calling import Read
from penstock_apps.knowledge.http.refusing import Refusing
from penstock_apps.knowledge.http.watching import EVENTS, SOURCE, wants_events, watched
from penstock_apps.knowledge.http.wishes import PLAIN
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.tallies import Counts

router = APIRouter(tags=["knowledge"], route_class=Refusing)

READ: Final = documented(401, 403, 404, 422, 503)
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
SINCE = worded(
    r"^[1-9][0-9]{0,4}[smhd]$",
    "a number with s, m, h or d for seconds, minutes, hours or days, such as 24h",
)
Since = Annotated[str | None, Query(pattern=SINCE, examples=["24h"])]


def _live() -> dict[int | str, dict[str, Any]]:
    answers = gives(SourceProgress, 200, "Once as JSON; as events each time that it has changed.")
    answers[200]["content"] |= EVENTS
    answers[204] = {"description": "The client has seen the final state: it may stay away."}
    return answers


@router.get("/knowledge-sources/{id}/progress", responses={**_live(), **READ})
@gives_events
async def source_progress(id: Id, request: Request, library: Read) -> Response:
    """How many documents of a source are in which state; live for `Accept: text/event-stream`.

    An event is a whole state with its version, as at `/live/knowledge-source/{id}`.
    """
    progress = await progress_of(library, int(id))
    if wants_events(request):
        return await watched(request, library, SOURCE, int(id))
    return as_json(progress)


@router.get("/knowledge-bases/{id}/progress", responses={**gives(KnowledgeProgress), **READ})
async def base_progress(id: BaseName, library: Read, since: Since = None) -> Response:
    """How many documents of a base are in which state, or of those that came `since` a time."""
    base = await base_of(library, id)
    counts = await library.progress(base=base.id, since=_lasting(since))
    return as_json(KnowledgeProgress.of(counts))


@router.get("/knowledge-progress", responses={**gives(KnowledgeProgress), **READ})
async def whole_progress(
    library: Read, batch: Annotated[Id | None, Query()] = None, since: Since = None
) -> Response:
    """How many documents of a tenant are in which state, or of those that came `since` a time.

    With `batch` of those that a batch brings in.
    """
    if batch is None:
        return as_json(KnowledgeProgress.of(await library.progress(since=_lasting(since))))
    if since is not None:
        told = "A batch is counted as a whole: leave out `since`, or `batch`."
        raise Problem(422, "does-not-fit", told, fields=[("query.since", told)])
    found = await library.client.get_batch(batch)
    if found.tenant != library.tenant:
        raise BatchNotFound(batch)
    async with library.transaction() as on:
        skipped = await library.shop.tallies.skipped(on, library.tenant, batch)
    return as_json(KnowledgeProgress.of(_counts(found, skipped), found.eta))


async def base_of(library: Library, name: str) -> Base:
    """A base by its id or its name."""
    if name.isdecimal() and len(name) > 18:
        raise NotFound("knowledge base", name)
    return await library.base(name)


async def progress_of(library: Library, id: int) -> SourceProgress:
    """How far a source is."""
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
    """By the newest batch, whose jobs are most of what pends."""
    if batch is None:
        return None
    try:
        return (await library.client.get_batch(batch)).eta
    except BatchNotFound:
        return None


def _counts(batch: BatchStatus, skipped: int) -> Counts:
    """A batch has a job for each document; the job of one that is skipped completes.

    They are read one after the other, so a job may have been deleted meanwhile.
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


def _lasting(text: str | None) -> timedelta | None:
    return None if text is None else timedelta(**{UNITS[text[-1]]: int(text[:-1])})
