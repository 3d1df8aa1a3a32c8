"""From a URL to a file, without a way into our own network."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from email.message import Message
from functools import cache
from pathlib import Path

import httpcore
import httpx
from msgspec import Struct

from penstock.errors import ConfigError
from penstock.net.decoder import ACCEPTED, Decoder
from penstock.net.errors import FetchFailed, FetchRefused
from penstock.net.guard import Allowed, Guard, Resolve, place_at, resolve, shown
from penstock.net.media_type import media_type
from penstock.storage.sink import Sink
from penstock.tasks import asked_wait

MEGABYTE = 1024 * 1024


UNKNOWN_MEDIA_TYPE = "application/octet-stream"
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
RETRYABLE_STATUSES = frozenset({408, 425, 429})
STATUS_MEANINGS = {
    401: "it asks for a login",
    403: "it does not let us in",
    404: "there is no such page",
    407: "it asks for a login",
    410: "the page was removed",
    451: "the page must not be shown",
}

USER_AGENT = "Penstock/1.0"


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """`bytes` holds for what travels and for what it becomes unpacked; the others are seconds."""

    bytes: int = 100 * MEGABYTE
    redirects: int = 5
    connect: float = 10.0
    read: float = 20.0
    total: float = 120.0
    # Whose text nobody can read here.
    unwanted: tuple[str, ...] = ("audio/", "video/", "font/")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, tuple) and value < 0:
                raise ConfigError(field.name, value, "a number that is not negative")


class ResponseHead:
    """Status and headers, read once."""

    def __init__(self, response: httpcore.Response) -> None:
        self.status = response.status
        self.headers = httpx.Headers(response.headers)

    @property
    def moved_to(self) -> str | None:
        return self.headers.get("location") if self.status in REDIRECT_STATUSES else None

    @property
    def media_type(self) -> str:
        return self._content_type.get_content_type()

    @property
    def charset(self) -> str | None:
        return self._content_type.get_content_charset()

    def check(self, url: str, limits: FetchLimits) -> None:
        """Refuse what brings no page."""
        self._check_status(url)
        if self.media_type.startswith(limits.unwanted):
            raise FetchRefused("media_type", f"{url} is {self.media_type}: there is no text in it.")
        length = self.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > limits.bytes:
            raise too_large(url, limits)

    def _check_status(self, url: str) -> None:
        if 200 <= self.status < 300:
            return
        if self.status >= 500 or self.status in RETRYABLE_STATUSES:
            raise FetchFailed(
                f"The server of {url} is busy or broken (it answers {self.status}).",
                status=self.status,
                after=asked_wait(self.headers),
            )
        meaning = STATUS_MEANINGS.get(self.status, "there is no page in that")
        raise FetchRefused(
            "status", f"The server of {url} answers {self.status}: {meaning}.", status=self.status
        )

    @property
    def _content_type(self) -> Message:
        message = Message()
        message["Content-Type"] = self.headers.get("content-type") or UNKNOWN_MEDIA_TYPE
        message.set_default_type(UNKNOWN_MEDIA_TYPE)
        return message


def too_large(url: str, limits: FetchLimits, *, inflated: bool = False) -> FetchRefused:
    how = " once it is unpacked" if inflated else ""
    return FetchRefused(
        "inflates" if inflated else "too_large",
        f"{url} is larger than the {limits.bytes:,} bytes allowed{how}.",
    )


class FetchedPage(Struct, frozen=True):
    """It stands at `path`, unpacked, and belongs to who fetched it."""

    path: Path
    digest: bytes
    bytes: int
    media_type: str
    final_url: str
    charset: str | None = None
    etag: str | None = None
    last_modified: str | None = None

    @property
    def content_type(self) -> str:
        """The media type, with the encoding that the server declares unless that is UTF-8."""
        return media_type(self.media_type, self.charset)


@contextmanager
def plain_errors(host: str) -> Iterator[None]:
    """Ask a server for something; what goes wrong on the way becomes one of our errors."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise FetchFailed(f"The server {host} does not answer in time.") from error
    except httpcore.ConnectError as error:
        if (why := _certificate(error)) is not None:
            raise FetchRefused(
                "certificate",
                f"The server {host} cannot show that it is {host}: "
                f"its certificate is not valid ({why.rstrip('.')}).",
            ) from error
        # Not why: that has the address of a server that we may know by its name alone.
        raise FetchFailed(f"The server {host} cannot be reached.") from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise FetchFailed(f"The server {host} broke off its answer ({error}).") from error


def _certificate(error: BaseException | None) -> str | None:
    """What is wrong with a certificate, if that is what lies below this error."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error.verify_message
        error = error.__cause__ or error.__context__
    return None


async def fetch(
    url: str,
    folder: Path,
    limits: FetchLimits | None = None,
    *,
    allow: Allowed | None = None,
    user_agent: str = USER_AGENT,
    resolve: Resolve = resolve,
) -> FetchedPage:
    """Fetch a page into a new file of this folder.

    page = await fetch("https://example.org/handbook", folder)
    """
    limits = limits or FetchLimits()
    guard = Guard(allow or Allowed(), resolve)
    start = place_at(url)
    try:
        async with asyncio.timeout(limits.total), _pool(guard) as pool:
            return await Fetcher(pool, limits, user_agent).follow(start, folder)
    except TimeoutError as error:
        raise FetchFailed(f"{shown(start)} did not come within {limits.total:g} s.") from error


class Fetcher:
    """One page, by way of all that it is moved to."""

    def __init__(
        self, pool: httpcore.AsyncConnectionPool, limits: FetchLimits, user_agent: str
    ) -> None:
        self._pool = pool
        self._limits = limits
        self._headers = [
            ("User-Agent", user_agent),
            ("Accept", "*/*"),
            ("Accept-Encoding", ACCEPTED),
        ]

    async def follow(self, url: httpx.URL, folder: Path) -> FetchedPage:
        for _ in range(self._limits.redirects + 1):
            async with self._ask(url) as response:
                answer = ResponseHead(response)
                if answer.moved_to is None:
                    answer.check(shown(url), self._limits)
                    return await self._save(url, answer, response, folder)
            url = place_at(answer.moved_to, url)
        raise FetchRefused(
            "redirects",
            f"The page is moved more than {self._limits.redirects} times, now to {shown(url)}.",
        )

    @asynccontextmanager
    async def _ask(self, url: httpx.URL) -> AsyncIterator[httpcore.Response]:
        place = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        times = {
            "connect": self._limits.connect,
            "read": self._limits.read,
            "write": self._limits.read,
            "pool": self._limits.connect,
        }
        headers = [("Host", url.netloc.decode("ascii")), *self._headers]
        with plain_errors(url.host):
            async with self._pool.stream(
                "GET", place, headers=headers, extensions={"timeout": times}
            ) as response:
                yield response

    async def _save(
        self, url: httpx.URL, answer: ResponseHead, response: httpcore.Response, folder: Path
    ) -> FetchedPage:
        decoder = Decoder(answer.headers.get("content-encoding", ""))
        sink = Sink(folder / f"{secrets.token_hex(16)}.page")
        try:
            async for chunk in response.aiter_stream():
                for piece in decoder.decode(chunk):
                    await sink.write(piece)
                    if sink.bytes > self._limits.bytes:
                        raise too_large(shown(url), self._limits, inflated=decoder.packed)
            decoder.finish()
            digest = await sink.finish()
        except BaseException:
            await sink.abandon()
            raise
        return FetchedPage(
            path=sink.path,
            digest=digest,
            bytes=sink.bytes,
            media_type=answer.media_type,
            final_url=str(url),
            charset=answer.charset,
            etag=answer.headers.get("etag"),
            last_modified=answer.headers.get("last-modified"),
        )


def _pool(guard: Guard) -> httpcore.AsyncConnectionPool:
    return httpcore.AsyncConnectionPool(ssl_context=trusted(), network_backend=guard)


@cache
def trusted() -> ssl.SSLContext:
    """The certificates that pages are checked with: to read them takes longer than many a page."""
    return httpx.create_ssl_context()
