"""Uploads: files, texts and addresses."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from penstock.service.dependencies import wiring_of
from penstock.service.models.jobs import Id
from penstock.service.problems import Problem, documented
from penstock.service.routing import as_json, gives, keeps_keys, streamed
from penstock_apps.knowledge.fetch import FetchRefused, foresee
from penstock_apps.knowledge.http.answers import Uploaded, outcomes
from penstock_apps.knowledge.http.calling import Add
from penstock_apps.knowledge.http.inline import documents_awaited, receipt_awaited, seconds_to_wait
from penstock_apps.knowledge.http.needing import needing
from penstock_apps.knowledge.http.refusing import Refusing, told
from penstock_apps.knowledge.http.upload import Upload
from penstock_apps.knowledge.http.watching import DOCUMENT, EVENTS, wants_events, watched
from penstock_apps.knowledge.http.wishes import Named, Tag, TextWish, UrlWish
from penstock_apps.knowledge.intake import Incoming, Receipt
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.shown import shown_name
from penstock_apps.knowledge.upload import UploadRefused

router = APIRouter(prefix="/upload", tags=["knowledge"], route_class=Refusing)

TAKEN: Final = "Taken in; `location` is where to look how far it is."
ANSWERS: Final = {
    **gives(Uploaded, 200, "All documents have ended: see what has become of each."),
    **gives(Uploaded, 202, TAKEN),
    **documented(400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
}
FORM: Final = {
    "requestBody": {
        "required": True,
        "description": (
            "Files, as many as there are, under any name; before them fields with the names of the "
            "parameters, which they stand for."
        ),
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                        }
                    },
                }
            }
        },
    }
}
LIVE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Events with the state of the document, until its end.", "content": EVENTS}
}
# A client that still sends while it is refused may never read why; so much is taken from it.
DRAINED_SECONDS: Final = 2.0


@router.post("/documents", responses=ANSWERS, openapi_extra=FORM)
@streamed
@keeps_keys
async def upload_documents(
    request: Request,
    library: Add,
    base: Annotated[Named | None, Query()] = None,
    source: Annotated[Id | None, Query()] = None,
    name: Annotated[Named | None, Query()] = None,
    tags: Annotated[list[Tag] | None, Query(max_length=32)] = None,
    metadata: Annotated[str | None, Query(max_length=16_384)] = None,
    priority: Annotated[int | None, Query(ge=-100, le=100)] = None,
    idempotency_key: Annotated[Named | None, Header()] = None,
) -> Response:
    """Take files into a source of a knowledge base, which are made if they are not there.

    Sent again to the same source (by its id, its name or an `Idempotency-Key`) a file that is
    there adds nothing. What arrived whole before a connection broke stays.
    """
    given: dict[str, Any] = {"base": base, "source": source, "name": name, "tags": tags}
    given |= {"metadata": metadata, "priority": priority, "key": idempotency_key}
    upload = Upload(library, {name: value for name, value in given.items() if value is not None})
    stream = request.stream()
    try:
        _expect_plain(request)
        await upload.take(stream, request.headers.get("content-type", ""))
    except UploadRefused as error:
        await _drain(stream)
        problem = told(error)
        problem.headers["connection"] = "close"
        problem.about = (problem.about or {}) | _so_far(upload)
        raise problem from error
    except Exception:
        await _drain(stream)
        raise
    if upload.intake is None or upload.base is None:
        raise Problem(413, "too-large", upload.refused[0].error)
    receipt = upload.intake.receipt
    async with needing(library, upload.base):
        return await _answer(request, library, receipt, upload.paths, upload.bytes, upload)


@router.post("/text", responses=ANSWERS)
async def upload_text(wish: TextWish, request: Request, library: Add) -> Response:
    """Take a text into a source of a knowledge base."""
    base = await library.make_base(wish.base)
    path, content = shown_name(wish.name), wish.text.encode()
    async with needing(library, base):
        with tempfile.NamedTemporaryFile(dir=library.shop.folder) as file:
            here = Path(file.name)
            await asyncio.to_thread(here.write_bytes, content)
            given = Incoming(path, here, len(content), sha256(content).digest(), "text/plain")
            async with library.intake(
                base, wish.target, wish.labels, priority=wish.priority
            ) as intake:
                await intake.add([given])
        return await _answer(request, library, intake.receipt, [path], len(content))


@router.post("/url", responses={**ANSWERS, **LIVE})
async def upload_url(wish: UrlWish, request: Request, library: Add) -> Response:
    """Take in what an address leads to, and tell live how far that is, until the end.

    An event is the whole state of the document, with its version. `Accept: application/json` is
    answered with 202 at once. An address that can be seen to be refused is so at once.
    """
    _expect_fetchable(wish.url)
    base = await library.make_base(wish.base)
    async with needing(library, base):
        async with library.intake(base, wish.target, wish.labels, priority=wish.priority) as intake:
            [wanted] = await intake.add_url(wish.url)
        accept = request.headers.get("accept", "")
        if "application/json" in accept and not wants_events(request):
            return await _answer(request, library, intake.receipt, None, 0)
    return await watched(request, library, DOCUMENT, wanted.id)


async def _answer(
    request: Request,
    library: Library,
    receipt: Receipt,
    paths: Sequence[str] | None,
    size: int,
    upload: Upload | None = None,
) -> Response:
    """At once, or once the documents have ended of an upload that is waited for."""
    documents, ended = None, False
    number = None if paths is None else len(paths)
    if seconds := await seconds_to_wait(library, number, size):
        stopping = wiring_of(request).stopping
        if paths is None:
            ended = await receipt_awaited(library, receipt, seconds, stopping)
        else:
            found, ended = await documents_awaited(
                library, receipt.source, paths, seconds, stopping
            )
            documents = outcomes(found, receipt.batch)
    source = await library.source(receipt.source)
    uploaded = Uploaded(
        batch=receipt.batch,
        job_count=receipt.total,
        knowledge_source_ids=[str(receipt.source)],
        base=str(source.base),
        unchanged=receipt.unchanged,
        pending=receipt.pending,
        refused=[] if upload is None else upload.refused,
        refused_count=0 if upload is None else upload.refused_count,
        documents=documents,
    )
    where = request.url_for("source_progress", id=str(receipt.source)).path
    return as_json(uploaded, 200 if ended else 202, {"location": where})


def _expect_fetchable(url: str) -> None:
    try:
        foresee(url)
    except FetchRefused as error:
        raise Problem(422, "does-not-fit", str(error), fields=[("url", str(error))]) from error


def _expect_plain(request: Request) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        said = "The body is taken as it is: send it without content-encoding."
        raise Problem(415, "unsupported-media-type", said, headers={"connection": "close"})


def _so_far(upload: Upload) -> dict[str, Any]:
    """What was taken in of an upload that was not taken whole."""
    if upload.intake is None:
        return {}
    receipt = upload.intake.receipt
    return {"source": str(receipt.source), "batch": receipt.batch, "taken": upload.files}


async def _drain(stream: AsyncIterator[bytes]) -> None:
    with suppress(Exception):
        async with asyncio.timeout(DRAINED_SECONDS):
            async for _ in stream:
                pass
