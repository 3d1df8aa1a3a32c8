"""The routes that upload files, texts and URLs. Files are stored while later ones still arrive."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from penstock.net.errors import FetchRefused
from penstock.net.guard import Allowed, check_url
from penstock.service.dependencies import runtime_of
from penstock.service.problems import Problem, raises
from penstock.service.routing import as_json, idempotent, returns, streams_body
from penstock.service.schemas import Id
from penstock_apps.knowledge.errors import BaseDeleted, NotFound
from penstock_apps.knowledge.file_names import display_name
from penstock_apps.knowledge.http.answers import Refused, Uploaded, outcomes
from penstock_apps.knowledge.http.bodies import Named, Tag, TextWish, UrlWish, parse_upload_form
from penstock_apps.knowledge.http.routing import Add, KnowledgeRoute, problem_from
from penstock_apps.knowledge.http.sources import DOCUMENT, EVENTS, stream_subject, wants_events
from penstock_apps.knowledge.ingest.intake import Incoming, Intake, Receipt
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.multipart_form import (
    FormField,
    FormItem,
    FormLimits,
    OversizedFile,
    ReceivedFile,
    UploadRefused,
    receive_form,
    workspace,
)
from penstock_apps.knowledge.settings import FETCH_PREFIX
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import Document


@asynccontextmanager
async def explain_deleted_base(library: Library, base: Base) -> AsyncIterator[None]:
    """Replace a NotFound from the block by BaseDeleted, if the base was deleted."""
    try:
        yield
    except NotFound as error:
        async with library.transaction() as on:
            existing = await library.runtime.bases.find(on, library.tenant, None, base.id)
        if existing is None:
            raise BaseDeleted(base.name) from error
        raise


# A group is stored and written together once it has so many files, or is this old.
FILES_PER_GROUP: Final = 100
MAX_GROUP_AGE_S: Final = 1.0
# The service gives up on a client that sends nothing for so long.
MAX_SILENCE_S: Final = 60.0
MAX_REFUSED_LISTED: Final = 100
LIST_FIELDS: Final = frozenset({"tags"})


class Upload:
    """Receives a form and adds its files in groups. Added files stay if the upload fails later."""

    def __init__(self, library: Library, parameters: dict[str, Any]) -> None:
        self._library = library
        self._parameters = parameters
        self._form_fields = set[str]()
        self._paths: list[str] | None = []
        self._digests: dict[str, bytes] = {}
        self.intake: Intake | None = None
        self.base: Base | None = None
        self.files = 0
        self.bytes = 0
        self.refused: list[Refused] = []
        self.refused_count = 0

    @property
    def paths(self) -> list[str] | None:
        """The paths of the files; None once there are more than `inline_files`."""
        return self._paths

    async def receive(self, stream: AsyncIterator[bytes], content_type: str) -> None:
        """Add all files of a form.

        If a part of the form is refused, add the files before it, then raise UploadRefused.
        """
        runtime = self._library.runtime
        limits = FormLimits(
            file_bytes=runtime.settings.file_bytes, files=runtime.settings.request_files
        )
        async with AsyncExitStack() as stack:
            here = await stack.enter_async_context(workspace(runtime.folder))
            group: FileGroup | None = None
            refusal: UploadRefused | None = None
            items = receive_form(_limit_silence(stream), content_type, here, limits)
            try:
                async with aclosing(items):
                    async for item in items:
                        if isinstance(item, ReceivedFile) and group is None:
                            group = await stack.enter_async_context(
                                FileGroup(await self._open(stack))
                            )
                        await self._handle(item, group)
            except UploadRefused as error:
                refusal = error
            if group is not None:
                await group.end()
            if refusal is not None:
                raise refusal
            if group is None and not self.refused_count:
                raise Problem(422, "does-not-fit", "There is no file in the form.")

    async def _open(self, stack: AsyncExitStack) -> Intake:
        form = parse_upload_form(self._parameters)
        self.base = base = await self._library.make_base(form.base)
        await stack.enter_async_context(explain_deleted_base(self._library, base))
        intake = self._library.intake(base, form.target, form.labels, priority=form.priority)
        self.intake = await stack.enter_async_context(intake)
        return self.intake

    async def _handle(self, item: FormItem, group: FileGroup | None) -> None:
        match item:
            case FormField():
                self._set(item)
            case OversizedFile():
                self._refuse(item.name, "too_large", item.message)
            case ReceivedFile() if item.name in self._digests:
                await self._leave_out(item)
            case ReceivedFile():
                assert group is not None
                self._count(item)
                await group.add(item)

    async def _leave_out(self, item: ReceivedFile) -> None:
        """Drop a file whose name came before. The first file stays: it may be stored already."""
        if item.digest != self._digests[item.name]:
            message = (
                f"{item.name} came twice in this request with different content, and the first was "
                "kept. Send paths as file names to keep both."
            )
            self._refuse(item.name, "twice", message)
        await asyncio.to_thread(_remove, [item.path])

    def _refuse(self, path: str, reason: str, error: str) -> None:
        self.refused_count += 1
        if len(self.refused) < MAX_REFUSED_LISTED:
            self.refused.append(Refused(path=path, reason=reason, error=error))

    def _count(self, item: ReceivedFile) -> None:
        self.files += 1
        self.bytes += item.bytes
        self._digests[item.name] = item.digest
        if self._paths is not None:
            self._paths.append(item.name)
            if len(self._paths) > self._library.runtime.settings.inline_files:
                self._paths = None

    def _set(self, field: FormField) -> None:
        """Use the value of a form field instead of the query parameter of the same name."""
        if self.intake is not None:
            message = (
                f"The field {field.name!r} comes after a file. Send all fields before the files."
            )
            raise Problem(422, "does-not-fit", message, fields=[(field.name, message)])
        if field.name in LIST_FIELDS:
            values = self._parameters.get(field.name, []) if field.name in self._form_fields else []
            self._parameters[field.name] = [*values, field.value]
        else:
            self._parameters[field.name] = field.value
        self._form_fields.add(field.name)


class FileGroup:
    """Collects files and adds them together. While one group is added, the next is received."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._files: list[ReceivedFile] = []
        self._first_at = 0.0
        self._adding: asyncio.Task[None] | None = None

    async def __aenter__(self) -> FileGroup:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._adding is not None:
            await asyncio.gather(self._adding, return_exceptions=True)

    async def add(self, file: ReceivedFile) -> None:
        if not self._files:
            self._first_at = time.monotonic()
        self._files.append(file)
        if (
            len(self._files) >= FILES_PER_GROUP
            or time.monotonic() - self._first_at > MAX_GROUP_AGE_S
        ):
            await self._start_adding()

    async def end(self) -> None:
        """Add the remaining files, and wait until all are added."""
        await self._start_adding()
        await self._finish_adding()

    async def _start_adding(self) -> None:
        await self._finish_adding()
        if self._files:
            files, self._files = self._files, []
            self._adding = asyncio.create_task(self._take_in(files), name="penstock upload")

    async def _finish_adding(self) -> None:
        if self._adding is not None:
            adding, self._adding = self._adding, None
            await adding

    async def _take_in(self, files: list[ReceivedFile]) -> None:
        await self._intake.add([_incoming_file(each) for each in files])
        await asyncio.to_thread(_remove, [each.path for each in files])


def _incoming_file(file: ReceivedFile) -> Incoming:
    return Incoming(file.name, file.path, file.bytes, file.digest, file.media_type)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


async def _limit_silence(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks of a stream; raise TimeoutError if none comes for `MAX_SILENCE_S`."""
    while True:
        async with asyncio.timeout(MAX_SILENCE_S):
            chunk = await anext(stream, None)
        if chunk is None:
            return
        yield chunk


POLL_INTERVALS_S: Final = (0.03, 0.25)
UNDER_WAY: Final = frozenset({"pending", "processing"})


async def seconds_to_wait(library: Library, files: int | None, size: int) -> float:
    """Return how many seconds the response to an upload waits for its documents.

    Pass None as `files` for a URL, and for more than `inline_files` files: their response does not
    wait where the tenant has background processing.
    """
    settings = library.runtime.settings
    async with library.transaction() as on:
        tenant = await library.runtime.tenants.get(on, library.tenant)
    rank = rank_of_tenant(library.tenant)
    if not tenant.has_background(settings, rank):
        return settings.wait_seconds
    is_small = files is not None and files <= settings.inline_files
    if not settings.inline or not is_small or size > settings.inline_bytes:
        return 0.0
    own = tenant.settings.inline
    is_inline = rank < settings.inline_share if own is None else own
    return settings.inline_seconds if is_inline else 0.0


def rank_of_tenant(tenant: str) -> float:
    """Return a number from 0 to 1 that is always the same for a tenant.

    Settings such as `inline_share` apply to the tenants whose number is below them.
    """
    return int.from_bytes(blake2b(tenant.encode(), digest_size=6).digest()) / 2**48


async def wait_for_documents(
    library: Library, source: int, paths: Sequence[str], seconds: float, stopping: asyncio.Event
) -> tuple[Sequence[Document], bool]:
    """Wait for the documents at these paths; return them, and whether all have ended in time."""
    documents: Sequence[Document] = ()

    async def ended() -> bool:
        nonlocal documents
        async with library.transaction() as on:
            documents = await library.runtime.documents.find_at_paths(
                on, library.tenant, source, paths
            )
        return not any(each.state in UNDER_WAY for each in documents)

    is_over = await _wait_until(ended, seconds, stopping)
    return documents, is_over


async def wait_for_receipt(
    library: Library, receipt: Receipt, seconds: float, stopping: asyncio.Event
) -> bool:
    """Wait for all documents of an upload; return whether they have ended in time.

    Documents that another batch is ingesting count as ended once their source has no unfinished
    ones.
    """

    async def ended() -> bool:
        if (await library.client.get_batch(receipt.batch)).pending:
            return False
        if not receipt.pending:
            return True
        return (await library.progress(source=receipt.source)).state != "processing"

    return await _wait_until(ended, seconds, stopping)


async def _wait_until(
    ended: Callable[[], Awaitable[bool]], seconds: float, stopping: asyncio.Event
) -> bool:
    """Poll `ended` until it returns True, time is up or the service stops; return its result."""
    until = time.monotonic() + seconds
    pause, longest = POLL_INTERVALS_S
    while True:
        if await ended():
            return True
        if stopping.is_set() or time.monotonic() >= until:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(min(pause, until - time.monotonic())):
                await stopping.wait()
        pause = min(pause * 1.5, longest)


router = APIRouter(prefix="/upload", tags=["knowledge"], route_class=KnowledgeRoute)

ACCEPTED: Final = "The upload is accepted. The header `location` has the address of its progress."
ANSWERS: Final = {
    **returns(
        Uploaded, 200, "All documents have ended. `documents`, if present, has the outcome of each."
    ),
    **returns(Uploaded, 202, ACCEPTED),
    **raises(400, 401, 403, 404, 408, 409, 413, 415, 422, 503),
}
FORM: Final = {
    "requestBody": {
        "required": True,
        "description": (
            "The files, each under any field name. Form fields with the names of the parameters "
            "may come before the files, and replace these parameters."
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
    200: {
        "description": "A stream of events with the state of the document, until it has ended.",
        "content": EVENTS,
    }
}
# A client may not read a refusal before it has sent its body, so the rest is read for this long.
MAX_DRAIN_S: Final = 2.0


@router.post("/documents", responses=ANSWERS, openapi_extra=FORM)
@streams_body
@idempotent
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
    """Upload files to a source of a knowledge base. A missing base or source is created.

    You may send the same request again: a file that the source already has adds nothing. The source
    is found by its id, by its name or by the `Idempotency-Key`. If the connection breaks, the files
    that arrived completely stay.
    """
    values: dict[str, Any] = {"base": base, "source": source, "name": name, "tags": tags}
    values |= {"metadata": metadata, "priority": priority, "key": idempotency_key}
    upload = Upload(library, {name: value for name, value in values.items() if value is not None})
    stream = request.stream()
    try:
        _refuse_encoded_body(request)
        await upload.receive(stream, request.headers.get("content-type", ""))
    except UploadRefused as error:
        await _drain(stream)
        problem = problem_from(error)
        problem.headers["connection"] = "close"
        problem.about = (problem.about or {}) | _describe_taken(upload)
        raise problem from error
    except Exception:
        await _drain(stream)
        raise
    if upload.intake is None or upload.base is None:
        raise Problem(413, "too-large", upload.refused[0].error)
    receipt = upload.intake.receipt
    async with explain_deleted_base(library, upload.base):
        return await _answer(request, library, receipt, upload.paths, upload.bytes, upload)


@router.post("/text", responses=ANSWERS)
async def upload_text(body: TextWish, request: Request, library: Add) -> Response:
    """Upload a text to a source of a knowledge base."""
    base = await library.make_base(body.base)
    path, content = display_name(body.name), body.text.encode()
    async with explain_deleted_base(library, base):
        with tempfile.NamedTemporaryFile(dir=library.runtime.folder) as file:
            here = Path(file.name)
            await asyncio.to_thread(here.write_bytes, content)
            incoming = Incoming(path, here, len(content), sha256(content).digest(), "text/plain")
            async with library.intake(
                base, body.target, body.labels, priority=body.priority
            ) as intake:
                await intake.add([incoming])
        return await _answer(request, library, intake.receipt, [path], len(content))


@router.post("/url", responses={**ANSWERS, **LIVE})
async def upload_url(body: UrlWish, request: Request, library: Add) -> Response:
    """Upload what a URL leads to, and stream the state of the document until it ends.

    Each event has the whole state of the document, with its version. With `Accept:
    application/json` the answer comes at once, without events. A URL that is not allowed is refused
    at once if the URL itself shows that.
    """
    _refuse_unfetchable(body.url)
    base = await library.make_base(body.base)
    async with explain_deleted_base(library, base):
        async with library.intake(base, body.target, body.labels, priority=body.priority) as intake:
            [version] = await intake.add_url(body.url)
        accept = request.headers.get("accept", "")
        if "application/json" in accept and not wants_events(request):
            return await _answer(request, library, intake.receipt, None, 0)
    return await stream_subject(request, library, DOCUMENT, version.id)


async def _answer(
    request: Request,
    library: Library,
    receipt: Receipt,
    paths: Sequence[str] | None,
    size: int,
    upload: Upload | None = None,
) -> Response:
    """Answer an upload. Depending on the settings, wait first for its documents to end."""
    documents, ended = None, False
    number = None if paths is None else len(paths)
    if seconds := await seconds_to_wait(library, number, size):
        stopping = runtime_of(request).stopping
        if paths is None:
            ended = await wait_for_receipt(library, receipt, seconds, stopping)
        else:
            awaited, ended = await wait_for_documents(
                library, receipt.source, paths, seconds, stopping
            )
            documents = outcomes(awaited, receipt.batch)
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


def _refuse_unfetchable(url: str) -> None:
    try:
        check_url(url, Allowed.of(FETCH_PREFIX))
    except FetchRefused as error:
        raise Problem(422, "does-not-fit", str(error), fields=[("url", str(error))]) from error


def _refuse_encoded_body(request: Request) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        message = "The body must not be compressed. Send it without content-encoding."
        raise Problem(415, "unsupported-media-type", message, headers={"connection": "close"})


def _describe_taken(upload: Upload) -> dict[str, Any]:
    """Describe the source and batch of an interrupted upload, and how many files were added."""
    if upload.intake is None:
        return {}
    receipt = upload.intake.receipt
    return {"source": str(receipt.source), "batch": receipt.batch, "taken": upload.files}


async def _drain(stream: AsyncIterator[bytes]) -> None:
    with suppress(Exception):
        async with asyncio.timeout(MAX_DRAIN_S):
            async for _ in stream:
                pass
