"""Read documents with LlamaParse: send each once, poll without holding a slot, keep the answer."""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from zlib import compress, decompress

import httpx
import msgspec
from msgspec import Struct

from penstock import Context, Exponential, NotRetryable, PollTimeout, Retryable, asked_wait
from penstock.storage.names import belongs_to
from penstock_apps.knowledge.errors import FILE_GONE, KnowledgeError, Unreadable
from penstock_apps.knowledge.extract.clean import clean_line, clean_text
from penstock_apps.knowledge.extract.detect import MEDIA_TYPES, SUFFIXES
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.documents import Work
from penstock_apps.knowledge.text import Extracted, Section


class NotParsed(KnowledgeError, NotRetryable):
    """LlamaParse has lost the file, or has not finished reading it in time."""


class ParserRefuses(NotParsed):
    """LlamaParse cannot be used: it has no valid key, or the server is not LlamaParse."""


KEY_VARIABLE: Final = "LLAMA_CLOUD_API_KEY"
ADDRESS: Final = "https://api.cloud.llamaindex.ai"
REQUEST_TIMEOUT_S: Final = 120.0
# An account without credit is seldom refilled within minutes.
RETRY_WITHOUT_CREDIT_S: Final = 600.0
KINDS: Final = frozenset({"pdf", "docx", "pptx"})
FINISHED_STATUSES: Final = frozenset({"SUCCESS", "PARTIAL_SUCCESS"})
FAILED_STATUSES: Final = frozenset({"ERROR", "CANCELLED", "CANCELED"})

Answer = TypeVar("Answer")


class Operation(Struct):
    """The state of a file at LlamaParse."""

    id: str
    status: str = "PENDING"
    error_code: str | None = None
    error_message: str | None = None


class ParsedPage(Struct):
    page: int
    md: str | None = None
    text: str | None = None


class Pages(Struct):
    pages: list[ParsedPage]


class LlamaParse:
    """Sends files to LlamaParse with one account's key, and reads the results.

    async with LlamaParse.of(os.environ) as service:
        operation = await service.start(path, "handbook.pdf")
    """

    def __init__(
        self, key: str, address: str = ADDRESS, timeout: float = REQUEST_TIMEOUT_S
    ) -> None:
        self._timeout = timeout
        self._client = httpx.AsyncClient(
            base_url=f"{address.rstrip('/')}/api/v1/parsing",
            headers={"Authorization": f"Bearer {key}"},
            timeout=timeout,
        )

    @classmethod
    def of(cls, environment: Mapping[str, str], address: str | None = None) -> LlamaParse:
        """Make a client with the key from the environment; raise ParserRefuses if there is none."""
        key = environment.get(KEY_VARIABLE)
        if not key:
            raise ParserRefuses(
                f"LlamaParse needs a key: set the environment variable {KEY_VARIABLE} "
                "where the workers run."
            )
        return cls(key, address or ADDRESS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def start(self, path: Path, name: str) -> str:
        """Send a file, and return the operation's id.

        LlamaParse charges only once for a file that is sent twice.
        """
        with path.open("rb") as file:
            sent = {"file": (Path(name).name, file)}
            operation = await self._request(Operation, "POST", "/upload", files=sent)
        return operation.id

    async def poll(self, operation: str) -> str | None:
        """Return the status of a finished operation, or None while it runs.

        Raise Unreadable if LlamaParse could not read the file.
        """
        state = await self._request(Operation, "GET", f"/job/{operation}")
        if state.status in FAILED_STATUSES:
            reason = clean_line(state.error_message or state.error_code) or state.status.lower()
            raise Unreadable("broken", f"LlamaParse could not read the file: {reason.rstrip('.')}.")
        return state.status if state.status in FINISHED_STATUSES else None

    async def sections(self, operation: str) -> list[Section]:
        """Return the text of each page, as Markdown."""
        result = await self._request(Pages, "GET", f"/job/{operation}/result/json")
        return [
            Section(text, page.page)
            for page in result.pages
            if (text := clean_text(page.md or page.text or ""))
        ]

    async def _request(
        self, answer: type[Answer], method: str, path: str, **options: Any
    ) -> Answer:
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._client.request(method, path, **options)
        except TimeoutError:
            raise Retryable(f"LlamaParse did not answer in {self._timeout:g} s.") from None
        except httpx.HTTPError as error:
            # Do not chain the error: it holds the request, and with it the key.
            name = type(error).__name__
            raise Retryable(f"LlamaParse could not be reached ({name}).") from None
        if not response.is_success:
            raise _error_from(response)
        try:
            return msgspec.json.decode(response.content, type=answer)
        except msgspec.DecodeError:
            raise ParserRefuses("LlamaParse has sent an answer that cannot be read.") from None


def _error_from(response: httpx.Response) -> Exception:
    status = response.status_code
    if status in (401, 403):
        return ParserRefuses(f"LlamaParse has refused the key with {status}. Check {KEY_VARIABLE}.")
    if status == 402:
        return Retryable(
            "LlamaParse has no credit left for this key (402).", after=RETRY_WITHOUT_CREDIT_S
        )
    if status == 404:
        return NotParsed("LlamaParse does not keep the file any more (404). Upload it again.")
    if status in (408, 409, 425, 429) or status >= 500:
        return Retryable(
            f"LlamaParse is busy or broken ({status}).", after=asked_wait(response.headers)
        )
    return Unreadable("broken", f"LlamaParse has refused the file with {status}.")


POLL_BACKOFF = Exponential(base=2, factor=1.5, cap=30)
MAX_READING_S = 3600.0
# The result of a step has a limit in size. A slice, compressed and in base64, stays below it.
MAX_SLICE_CHARACTERS = 750_000


class Slice(Struct, frozen=True):
    """A part of the compressed text, and the number of parts."""

    of: int
    data: str


class LlamaParseRun:
    """Reads a document with LlamaParse. Steps store the answer, so that no retry pays again."""

    def __init__(self, ctx: Context, runtime: KnowledgeRuntime, work: Work, kind: str) -> None:
        self._ctx = ctx
        self._runtime = runtime
        self._work = work
        self._kind = kind
        self._answer: list[str] | None = None

    async def run(self) -> Extracted:
        operation = await self._ctx.step("parse", self._start)
        try:
            await self._ctx.poll(
                "parsed", self._poll, operation, every=POLL_BACKOFF, within=MAX_READING_S
            )
        except PollTimeout:
            raise NotParsed(
                f"LlamaParse has not read the file within {MAX_READING_S / 60:.0f} minutes."
            ) from None
        first = await self._ctx.step("pages", self._slice, operation, 0)
        slices = [first] + [
            await self._ctx.step(f"pages {number}", self._slice, operation, number)
            for number in range(1, first.of)
        ]
        return Extracted(_unpack(slices), self._kind)

    async def _start(self) -> str:
        name = self._work.object
        if name is None or not belongs_to(name, self._ctx.job.tenant):
            raise Unreadable("broken", FILE_GONE)
        path = self._runtime.folder / f"parse-{self._ctx.job.id}"
        try:
            await self._runtime.storage.to_file(name, path)
            async with self._service() as service:
                return await service.start(path, self._work.path)
        finally:
            path.unlink(missing_ok=True)

    async def _poll(self, operation: str) -> str | None:
        async with self._service() as service:
            return await service.poll(operation)

    async def _slice(self, operation: str, number: int) -> Slice:
        if self._answer is None:
            async with self._service() as service:
                sections = await service.sections(operation)
            if not any(each.text.strip() for each in sections):
                raise Unreadable("no_text", "LlamaParse has found no text in the file.")
            self._answer = _pack(sections)
        return Slice(len(self._answer), self._answer[number])

    def _service(self) -> LlamaParse:
        return LlamaParse.of(os.environ, self._runtime.settings.parser_url)


def kind_for_llamaparse(runtime: KnowledgeRuntime, work: Work) -> str | None:
    """Return the kind of a document that LlamaParse has to read, or None if Penstock reads it."""
    # A file that is empty or too large costs no call to the service.
    if runtime.settings.parser != "llamaparse" or not 0 < work.size <= runtime.settings.file_bytes:
        return None
    suffix = Path(work.path).suffix.lower().removeprefix(".")
    kind = SUFFIXES.get(suffix) or MEDIA_TYPES.get((work.media_type or "").partition(";")[0])
    return kind if kind in KINDS else None


def _pack(sections: list[Section]) -> list[str]:
    data = b64encode(compress(msgspec.json.encode(sections))).decode()
    return [
        data[start : start + MAX_SLICE_CHARACTERS]
        for start in range(0, len(data), MAX_SLICE_CHARACTERS)
    ]


def _unpack(slices: list[Slice]) -> tuple[Section, ...]:
    data = decompress(b64decode("".join(each.data for each in slices)))
    return msgspec.json.decode(data, type=tuple[Section, ...])
