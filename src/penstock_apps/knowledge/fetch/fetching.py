"""From a URL to a file, without a way into our own network."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import httpcore
import httpx

from penstock_apps.knowledge.fetch.allowed import Allowed
from penstock_apps.knowledge.fetch.answer import Answer, too_large
from penstock_apps.knowledge.fetch.decoder import ACCEPTED, Decoder
from penstock_apps.knowledge.fetch.errors import FetchFailed, FetchRefused
from penstock_apps.knowledge.fetch.fetched import Fetched
from penstock_apps.knowledge.fetch.guard import Guard, Resolve, resolve
from penstock_apps.knowledge.fetch.limits import Limits
from penstock_apps.knowledge.fetch.place import place_at, shown
from penstock_apps.knowledge.fetch.said import said_plainly
from penstock_apps.knowledge.sink import Sink

USER_AGENT = "Penstock/1.0"


async def fetch(
    url: str,
    folder: Path,
    limits: Limits | None = None,
    *,
    allow: Allowed | None = None,
    user_agent: str = USER_AGENT,
    resolve: Resolve = resolve,
) -> Fetched:
    """Fetch a page into a new file of this folder.

    page = await fetch("https://example.org/handbook", folder)
    """
    limits = limits or Limits()
    guard = Guard(allow or Allowed(), resolve)
    start = place_at(url)
    try:
        async with asyncio.timeout(limits.total), _pool(guard) as pool:
            return await Fetching(pool, limits, user_agent).follow(start, folder)
    except TimeoutError as error:
        raise FetchFailed(f"{shown(start)} did not come within {limits.total:g} s.") from error


class Fetching:
    """One page, by way of all that it is moved to."""

    def __init__(self, pool: httpcore.AsyncConnectionPool, limits: Limits, user_agent: str) -> None:
        self._pool = pool
        self._limits = limits
        self._headers = [
            ("User-Agent", user_agent),
            ("Accept", "*/*"),
            ("Accept-Encoding", ACCEPTED),
        ]

    async def follow(self, url: httpx.URL, folder: Path) -> Fetched:
        for _ in range(self._limits.redirects + 1):
            async with self._ask(url) as response:
                answer = Answer(response)
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
        with said_plainly(url.host):
            async with self._pool.stream(
                "GET", place, headers=headers, extensions={"timeout": times}
            ) as response:
                yield response

    async def _save(
        self, url: httpx.URL, answer: Answer, response: httpcore.Response, folder: Path
    ) -> Fetched:
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
        return Fetched(
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
