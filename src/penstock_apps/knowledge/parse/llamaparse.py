"""LlamaParse: a file is sent, looked after, and its text fetched page by page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx
import msgspec
from msgspec import Struct

from penstock import Retryable, asked_wait
from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract.clean import line, tidied
from penstock_apps.knowledge.parse.errors import NotParsed, ParserRefuses
from penstock_apps.knowledge.text import Section

KEY: Final = "LLAMA_CLOUD_API_KEY"
ADDRESS: Final = "https://api.cloud.llamaindex.ai"
TIMEOUT: Final = 120.0
# An account without credit is not filled up in a minute.
WITHOUT_CREDIT: Final = 600.0
KINDS: Final = frozenset({"pdf", "docx", "pptx"})
OVER: Final = frozenset({"SUCCESS", "PARTIAL_SUCCESS"})
FAILED: Final = frozenset({"ERROR", "CANCELLED", "CANCELED"})

Answer = TypeVar("Answer")


class Operation(Struct):
    """A file that is being read, or was."""

    id: str
    status: str = "PENDING"
    error_code: str | None = None
    error_message: str | None = None


class Page(Struct):
    page: int
    md: str | None = None
    text: str | None = None


class Pages(Struct):
    pages: list[Page]


class LlamaParse:
    """One account.

    async with LlamaParse.of(os.environ) as service:
        operation = await service.start(path, "handbook.pdf")
    """

    def __init__(self, key: str, address: str = ADDRESS, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout
        self._client = httpx.AsyncClient(
            base_url=f"{address.rstrip('/')}/api/v1/parsing",
            headers={"Authorization": f"Bearer {key}"},
            timeout=timeout,
        )

    @classmethod
    def of(cls, environment: Mapping[str, str], address: str | None = None) -> LlamaParse:
        """With the key of the environment."""
        key = environment.get(KEY)
        if not key:
            raise ParserRefuses(
                f"LlamaParse needs a key: set the environment variable {KEY} where the workers run."
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
        """Send a file; the id of the operation. The same file sent twice is paid for once."""
        with path.open("rb") as file:
            sent = {"file": (Path(name).name, file)}
            operation = await self._ask(Operation, "POST", "/upload", files=sent)
        return operation.id

    async def look(self, operation: str) -> str | None:
        """The end of an operation, or None if it is not over."""
        found = await self._ask(Operation, "GET", f"/job/{operation}")
        if found.status in FAILED:
            told = line(found.error_message or found.error_code) or found.status.lower()
            raise Unreadable("broken", f"LlamaParse could not read the file: {told.rstrip('.')}.")
        return found.status if found.status in OVER else None

    async def sections(self, operation: str) -> list[Section]:
        """The text of each page, as Markdown."""
        found = await self._ask(Pages, "GET", f"/job/{operation}/result/json")
        return [
            Section(text, page.page)
            for page in found.pages
            if (text := tidied(page.md or page.text or ""))
        ]

    async def _ask(self, answer: type[Answer], method: str, path: str, **given: Any) -> Answer:
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._client.request(method, path, **given)
        except TimeoutError:
            raise Retryable(f"LlamaParse did not answer in {self._timeout:g} s.") from None
        except httpx.HTTPError as error:
            # Not as its cause, for with it goes the request, and the key in it.
            told = type(error).__name__
            raise Retryable(f"LlamaParse could not be asked ({told}).") from None
        if not response.is_success:
            raise _refusal(response)
        try:
            return msgspec.json.decode(response.content, type=answer)
        except msgspec.DecodeError:
            raise ParserRefuses("LlamaParse has sent an answer that cannot be read.") from None


def _refusal(response: httpx.Response) -> Exception:
    status = response.status_code
    if status in (401, 403):
        return ParserRefuses(f"LlamaParse has refused the key with {status}. Check {KEY}.")
    if status == 402:
        return Retryable("LlamaParse has no credit left for this key (402).", after=WITHOUT_CREDIT)
    if status == 404:
        return NotParsed("LlamaParse does not keep the file any more (404). Upload it again.")
    if status in (408, 409, 425, 429) or status >= 500:
        return Retryable(
            f"LlamaParse is busy or broken ({status}).", after=asked_wait(response.headers)
        )
    return Unreadable("broken", f"LlamaParse has refused the file with {status}.")
