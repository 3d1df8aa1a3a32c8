"""A service with knowledge, on a real database and a real socket."""

from collections.abc import AsyncIterator

import httpx
import pytest

from penstock import Penstock
from penstock.service import Service
from tests.fixtures.service import API, OpenDoor, serving


@pytest.fixture
async def server(app: Penstock) -> AsyncIterator[str]:
    """The address of a server that lets everybody in."""
    async with Service(app, door=OpenDoor()) as service, serving(service) as url:
        yield url


@pytest.fixture
async def http(server: str) -> AsyncIterator[httpx.AsyncClient]:
    """Requests to it; paths begin below `/api/v1`."""
    async with httpx.AsyncClient(base_url=f"{server}{API}", timeout=30) as http:
        yield http


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No upload is waited for."""
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_INLINE", "false")
