"""What the tests of the service use beside the database."""

from collections.abc import AsyncIterator

import httpx
import pytest

from penstock import Penstock
from penstock.service import Service
from tests.fixtures.later import later
from tests.fixtures.service import asked, service_of, serving
from tests.fixtures.worker import app

__all__ = ["app", "later"]


@pytest.fixture
async def service(app: Penstock) -> AsyncIterator[Service]:
    """A service of the app, without tasks yet, that lets everybody in."""
    async with service_of(app) as service:
        yield service


@pytest.fixture
async def http(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Requests to the service, without a socket; paths begin below `/api/v1`."""
    async with asked(service.asgi) as http:
        yield http


@pytest.fixture
async def server(service: Service) -> AsyncIterator[str]:
    """The address of a real server of the service."""
    async with serving(service) as url:
        yield url
