"""A service on a real database, asked without a socket."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from penstock import Penstock
from penstock.groups.keys import SCOPES, Scope
from penstock.service import Service
from tests.fixtures.database import Database

HOST = "http://localhost"


def asking(service: Service, key: str | None = None) -> httpx.AsyncClient:
    """A client of the service, with a key or without."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    transport = httpx.ASGITransport(service.asgi)
    return httpx.AsyncClient(transport=transport, base_url=HOST, headers=headers)


@asynccontextmanager
async def serving(database: Database) -> AsyncIterator[Service]:
    """A service with its app."""
    async with Service(served(Penstock(database.url))) as service:
        yield service


def served(app: Penstock) -> Penstock:
    """The app with a task."""

    @app.task(name="greet")
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    return app


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    async with serving(database) as service:
        yield service


@pytest.fixture
def app(service: Service) -> Penstock:
    """The app that is served."""
    app: Penstock = service.asgi.state.runtime.app
    return app


Asks = Callable[..., Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def asks(service: Service, app: Penstock) -> AsyncIterator[Asks]:
    """Makes clients with a key of their own: `await asks("read")`, all scopes if none is named."""
    async with AsyncExitStack() as stack:

        async def make(*scopes: Scope, tenant: str | None = None) -> httpx.AsyncClient:
            name = "-".join((*scopes, *([tenant] if tenant else ()))) or "all"
            made = await app.create_key(name, scopes=scopes or SCOPES, tenant=tenant)
            return await stack.enter_async_context(asking(service, made.secret))

        yield make


@pytest.fixture
async def admin(asks: Asks) -> httpx.AsyncClient:
    """A client that may do everything."""
    return await asks()
