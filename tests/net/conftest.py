import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.net import fetch as net_fetch
from penstock.net.fetch import FetchedPage, fetch
from penstock.net.guard import Allowed
from tests.net.site import Site

CERTIFICATE = Path(__file__).parent / "site.test.pem"

Get = Callable[..., Awaitable[FetchedPage]]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    server = await site.start()
    yield site
    await ended(server)


@pytest.fixture
async def secure_site() -> AsyncIterator[Site]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    site = Site()
    server = await site.start(context)
    yield site
    await ended(server)


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The certificate of the secure site is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    net_fetch.ssl_context.cache_clear()
    yield
    net_fetch.ssl_context.cache_clear()


async def ended(server: asyncio.Server) -> None:
    server.close()
    await server.wait_closed()


async def here(host: str, port: int) -> list[str]:
    """A name server for which everything is this machine."""
    return ["127.0.0.1"]


@pytest.fixture
def get(tmp_path: Path, site: Site) -> Get:
    """Fetch with the test's site allowed by its address."""

    def fetch_allowed(url: str, *limits: Any, **options: Any) -> Awaitable[FetchedPage]:
        options.setdefault("allow", Allowed(("127.0.0.1",), frozenset({80, 443, site.port})))
        return fetch(url, tmp_path, *limits, **options)

    return fetch_allowed
