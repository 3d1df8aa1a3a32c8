"""The routes of documents, their chunks and their files."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response, StreamingResponse

from penstock.service.problems import described, raises
from penstock.service.routing import as_json, public, returns, streams_events
from penstock.service.schemas import Id
from penstock.storage.errors import ObjectMissing
from penstock.storage.links import MAX_LIFETIME_S, Links
from penstock_apps.knowledge.http.answers import (
    ChunkPage,
    ChunkShown,
    Deleted,
    DocumentPage,
    DocumentShown,
    FileLink,
)
from penstock_apps.knowledge.http.bodies import Named
from penstock_apps.knowledge.http.routing import Change, KnowledgeRoute, Read, knowledge_runtime
from penstock_apps.knowledge.http.sources import (
    DOCUMENT,
    EVENTS,
    base_of,
    stream_subject,
    wants_events,
)
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.chunks import Passages
from penstock_apps.knowledge.store.documents import State

router = APIRouter(tags=["knowledge"], route_class=KnowledgeRoute)

READ: Final = raises(401, 403, 404, 422, 503)
CHANGE: Final = raises(401, 403, 404, 409, 422, 503)
GONE: Final = returns(Deleted, 202, "It is deleted and no longer found. A job removes its data.")
LIVE: Final = returns(
    DocumentShown,
    200,
    "The state as JSON, or as a stream of events with the whole state after each change.",
)
LIVE[200]["content"] |= EVENTS
LIVE[204] = {
    "description": "The client has already seen the final state, so it need not connect again."
}
FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The file.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
TOKEN: Final = described(r"^[A-Za-z0-9_.-]{1,1000}$", "a token as /documents/{id}/link returns it")
# Because of its purpose, nothing else that the same secret signs is accepted as a link.
LINK_PURPOSE: Final = b"penstock knowledge link 1\n"
# Without a configured secret, links are valid only in the process that made them.
_SECRET: Final = os.urandom(32)


@router.get("/documents", responses={**returns(DocumentPage), **READ})
async def list_documents(
    library: Read,
    base: Annotated[
        Named | None, Query(description="The id or the name of a knowledge base.")
    ] = None,
    source: Annotated[Id | None, Query()] = None,
    state: State | None = None,
    batch: Annotated[Id | None, Query()] = None,
    after: Annotated[Id | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the documents of a tenant that match all filters, newest first."""
    within = None if base is None else (await base_of(library, base)).id
    async with library.transaction() as on:
        documents = await library.runtime.documents.list(
            on,
            library.tenant,
            base=within,
            source=None if source is None else int(source),
            state=state,
            batch=batch,
            after=None if after is None else int(after),
            limit=limit,
        )
    shown = [DocumentShown.of(each) for each in documents]
    last = shown[-1].id if len(shown) == limit else None
    return as_json(DocumentPage(documents=shown, after=last))


@router.get("/documents/{id}", responses={**LIVE, **READ})
@streams_events
async def get_document(id: Id, request: Request, library: Read) -> Response:
    """Return a document in its present state, or stream it for `Accept: text/event-stream`."""
    document = await library.document(int(id))
    if wants_events(request):
        return await stream_subject(request, library, DOCUMENT, int(id))
    return as_json(DocumentShown.of(document))


@router.get("/documents/{id}/chunks", responses={**returns(ChunkPage), **READ})
async def list_chunks(
    id: Id,
    library: Read,
    after: Annotated[int, Query(ge=-1, le=2_000_000_000)] = -1,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the chunks of a document that searches find, in their order."""
    await library.document(int(id))
    async with library.transaction() as on:
        passages = Passages(library.runtime.tables)
        chunks = await passages.list(on, library.tenant, int(id), after, limit)
    shown = [
        ChunkShown(
            id=str(each.id),
            position=each.position,
            page=each.page,
            heading=each.heading,
            text=each.text,
            tokens=each.tokens,
        )
        for each in chunks
    ]
    last = shown[-1].position if len(shown) == limit else None
    return as_json(ChunkPage(chunks=shown, after=last))


@router.get("/documents/{id}/link", responses={**returns(FileLink), **READ})
async def link_document(id: Id, request: Request, library: Read) -> Response:
    """Return a link to the document's file. It works without a key, for an hour."""
    document = await library.document(int(id))
    if document.object is None or not document.stored:
        raise ObjectMissing(document.path)
    token = _links(library.runtime).sign(library.tenant, "GET", document.object)
    where = request.url_for("open_file", token=token).path
    return as_json(FileLink(url=where, expires_in=MAX_LIFETIME_S))


@router.get("/files/{token}", responses={**FILE, **raises(403, 404, 422, 503)})
@public
async def open_file(token: Annotated[str, Path(pattern=TOKEN)], request: Request) -> Response:
    """Return the file that a link leads to."""
    runtime = knowledge_runtime(request)
    link = _links(runtime).verify(token, request.method)
    opened = await runtime.storage.open(link.name)
    # Browsers must download it and not display it: an upload must not act as a page of ours.
    headers = {"content-disposition": "attachment", "content-length": str(opened.bytes)}
    return StreamingResponse(opened, 200, headers, "application/octet-stream")


@router.delete("/documents/{id}", responses={**GONE, **CHANGE})
async def delete_document(id: Id, library: Change) -> Response:
    """Delete a document with its chunks and its file."""
    await library.delete_document(int(id))
    return as_json(Deleted(deleted=id), 202)


def _links(runtime: KnowledgeRuntime) -> Links:
    secret = runtime.settings.link_secret
    return Links(secret.encode() if secret else _SECRET, LINK_PURPOSE)
