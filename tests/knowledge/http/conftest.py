"""A service with knowledge, on a real database and a real socket."""

from collections.abc import AsyncIterator
from functools import cache
from typing import Any

import httpx
import pytest

from penstock import Penstock
from penstock.service import Service
from penstock_apps.knowledge.knowledge import Knowledge
from tests.fixtures.service import API, OpenDoor, serving
from tests.knowledge.http.documented import Documented


@pytest.fixture
async def service(app: Penstock) -> AsyncIterator[Service]:
    """A service that lets everybody in."""
    async with Service(app, door=OpenDoor()) as service:
        yield service


@pytest.fixture
async def server(service: Service) -> AsyncIterator[str]:
    """The address of a server of it."""
    async with serving(service) as url:
        yield url


@cache
def document() -> dict[str, Any]:
    """It takes half a second to write, and is the same for all databases. Nobody may change it."""
    app = Penstock("postgresql://nowhere/x")
    Knowledge(app)
    return Service(app).asgi.openapi()


@cache
def documented() -> Documented:
    return Documented(document())


@pytest.fixture
async def http(server: str) -> AsyncIterator[httpx.AsyncClient]:
    """Requests to it, whose answers have to be documented; paths begin below `/api/v1`."""
    hooks: dict[str, list[Any]] = {"response": [documented()]}
    url = f"{server}{API}"
    async with httpx.AsyncClient(base_url=url, timeout=60, event_hooks=hooks) as http:
        yield http


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small upload is waited for, also on a busy machine."""
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_INLINE_SECONDS", "50")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No upload is waited for."""
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_INLINE", "false")
