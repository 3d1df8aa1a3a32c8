"""Fetch a page into a file, without reaching into the private network."""

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
from penstock.net.guard import Allowed, Guard, Resolve, display_url, parse_url, resolve
from penstock.net.media_type import media_type
from penstock.storage.sink import Sink
from penstock.tasks import asked_wait

MEGABYTE = 1024 * 1024


DEFAULT_MEDIA_TYPE = "application/octet-stream"
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
RETRYABLE_STATUSES = frozenset({408, 425, 429})
STATUS_MEANINGS = {
    401: "it asks for a login",
    403: "it refuses access",
    404: "there is no such page",
    407: "it asks for a login",
    410: "the page was removed",
    451: "it may not show the page, for legal reasons",
}

USER_AGENT = "Penstock/1.0"


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The limits of a fetch. `connect`, `read` and `total` are seconds.

    `bytes` limits the size of the body, both as it is sent and after it is decompressed.
    """

    bytes: int = 100 * MEGABYTE
    redirects: int = 5
    connect: float = 10.0
    read: float = 20.0
    total: float = 120.0
    # The beginnings of media types that contain no text to extract.
    unwanted: tuple[str, ...] = ("audio/", "video/", "font/")

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, tuple) and value < 0:
                raise ConfigError(field.name, value, "a number that is not negative")


class ResponseHead:
    """The status and the headers of a response."""

    def __init__(self, response: httpcore.Response) -> None:
        self.status = response.status
        self.headers = httpx.Headers(response.headers)

    @property
    def redirect_target(self) -> str | None:
        return self.headers.get("location") if self.status in REDIRECT_STATUSES else None

    @property
    def media_type(self) -> str:
        return self._content_type.get_content_type()

    @property
    def charset(self) -> str | None:
        return self._content_type.get_content_charset()

    def check(self, url: str, limits: FetchLimits) -> None:
        """Raise a `FetchError` if the response is no page, is too large, or contains no text."""
        self._check_status(url)
        if self.media_type.startswith(limits.unwanted):
            raise FetchRefused("media_type", f"{url} is {self.media_type}: there is no text in it.")
        length = self.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > limits.bytes:
            raise too_large_error(url, limits)

    def _check_status(self, url: str) -> None:
        if 200 <= self.status < 300:
            return
        if self.status >= 500 or self.status in RETRYABLE_STATUSES:
            raise FetchFailed(
                f"The server of {url} is busy or broken (it answers {self.status}).",
                status=self.status,
                after=asked_wait(self.headers),
            )
        meaning = STATUS_MEANINGS.get(self.status, "the server sent no page")
        raise FetchRefused(
            "status", f"The server of {url} answers {self.status}: {meaning}.", status=self.status
        )

    @property
    def _content_type(self) -> Message:
        message = Message()
        message["Content-Type"] = self.headers.get("content-type") or DEFAULT_MEDIA_TYPE
        message.set_default_type(DEFAULT_MEDIA_TYPE)
        return message


def too_large_error(url: str, limits: FetchLimits, *, inflated: bool = False) -> FetchRefused:
    suffix = " once it is unpacked" if inflated else ""
    return FetchRefused(
        "inflates" if inflated else "too_large",
        f"{url} is larger than the {limits.bytes:,} bytes allowed{suffix}.",
    )


class FetchedPage(Struct, frozen=True):
    """A page whose decompressed body was saved at `path`. The caller deletes the file."""

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
        """The media type, with the declared encoding unless that is UTF-8."""
        return media_type(self.media_type, self.charset)


@contextmanager
def translate_errors(host: str) -> Iterator[None]:
    """Raise errors of httpcore within the block as `FetchFailed` or `FetchRefused`."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise FetchFailed(f"The server {host} does not answer in time.") from error
    except httpcore.ConnectError as error:
        if (reason := _certificate_error(error)) is not None:
            raise FetchRefused(
                "certificate",
                f"The server {host} cannot show that it is {host}: "
                f"its certificate is not valid ({reason.rstrip('.')}).",
            ) from error
        # The message does not quote the error, which has the address of a server that the caller
        # may know by name only.
        raise FetchFailed(f"The server {host} cannot be reached.") from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise FetchFailed(f"The server {host} broke off its answer ({error}).") from error


def _certificate_error(error: BaseException | None) -> str | None:
    """Return why a certificate is not valid, or None if this error has another cause."""
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
    """Fetch a page, and save it in a new file in `folder`.

    page = await fetch("https://example.org/handbook", folder)

    Raises `FetchRefused` if another attempt would fail as well, and `FetchFailed` if it may
    succeed.
    """
    limits = limits or FetchLimits()
    guard = Guard(allow or Allowed(), resolve)
    start = parse_url(url)
    try:
        async with asyncio.timeout(limits.total), _pool(guard) as pool:
            return await Fetcher(pool, limits, user_agent).follow(start, folder)
    except TimeoutError as error:
        raise FetchFailed(
            f"{display_url(start)} took longer than {limits.total:g} s to load."
        ) from error


class Fetcher:
    """Fetches one page, and follows its redirects."""

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
            async with self._request(url) as response:
                head = ResponseHead(response)
                if head.redirect_target is None:
                    head.check(display_url(url), self._limits)
                    return await self._save(url, head, response, folder)
            url = parse_url(head.redirect_target, url)
        raise FetchRefused(
            "redirects",
            f"The page redirects more than {self._limits.redirects} times. The last address was "
            f"{display_url(url)}.",
        )

    @asynccontextmanager
    async def _request(self, url: httpx.URL) -> AsyncIterator[httpcore.Response]:
        target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
        )
        timeouts = {
            "connect": self._limits.connect,
            "read": self._limits.read,
            "write": self._limits.read,
            "pool": self._limits.connect,
        }
        headers = [("Host", url.netloc.decode("ascii")), *self._headers]
        with translate_errors(url.host):
            async with self._pool.stream(
                "GET", target, headers=headers, extensions={"timeout": timeouts}
            ) as response:
                yield response

    async def _save(
        self, url: httpx.URL, head: ResponseHead, response: httpcore.Response, folder: Path
    ) -> FetchedPage:
        decoder = Decoder(head.headers.get("content-encoding", ""))
        sink = Sink(folder / f"{secrets.token_hex(16)}.page")
        try:
            async for chunk in response.aiter_stream():
                for piece in decoder.decode(chunk):
                    await sink.write(piece)
                    if sink.bytes > self._limits.bytes:
                        raise too_large_error(
                            display_url(url), self._limits, inflated=decoder.is_compressed
                        )
            decoder.finish()
            digest = await sink.finish()
        except BaseException:
            await sink.abandon()
            raise
        return FetchedPage(
            path=sink.path,
            digest=digest,
            bytes=sink.bytes,
            media_type=head.media_type,
            final_url=str(url),
            charset=head.charset,
            etag=head.headers.get("etag"),
            last_modified=head.headers.get("last-modified"),
        )


def _pool(guard: Guard) -> httpcore.AsyncConnectionPool:
    return httpcore.AsyncConnectionPool(ssl_context=ssl_context(), network_backend=guard)


@cache
def ssl_context() -> ssl.SSLContext:
    """Load the trusted certificates once, because loading takes longer than most fetches."""
    return httpx.create_ssl_context()
