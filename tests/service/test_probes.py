"""What supervisors and load balancers ask."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest

from penstock import Penstock
from penstock.service import Service, operations
from tests.fixtures.database import Database
from tests.fixtures.proxy import Proxy
from tests.fixtures.service import document
from tests.fixtures.until import until


@pytest.fixture
async def service(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service to which nobody is let in; its readiness is looked at anew each time."""
    monkeypatch.setattr(operations, "READINESS_CACHE_S", 0.0)
    monkeypatch.setattr(operations, "DATABASE_TIMEOUT_S", 60.0)
    async with Service(Penstock(database.url)) as service:
        yield service


def asking(service: Service) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(service.asgi)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


@pytest.fixture
async def http(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with asking(service) as client:
        yield client


async def ready(http: httpx.AsyncClient) -> bool:
    return (await http.get("/readyz")).status_code == 200


async def test_livez_answers_everybody(http: httpx.AsyncClient) -> None:
    answer = await http.get("/livez")

    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


async def test_readyz_answers_everybody(http: httpx.AsyncClient) -> None:
    answer = await http.get("/readyz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


async def test_a_service_on_a_schema_that_is_too_old_is_not_ready(
    http: httpx.AsyncClient, later: str
) -> None:
    answer = await http.get("/readyz")

    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["type"] == "urn:penstock:not-ready"
    assert "penstock migrate" in answer.json()["detail"]


async def test_a_service_on_a_schema_that_is_too_new_is_not_ready(
    http: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    await connection.execute("INSERT INTO penstock.migration (number, name) VALUES (9999, 'new')")
    await connection.execute("DROP FUNCTION penstock.sleep_v1")

    answer = await http.get("/readyz")

    assert answer.status_code == 503
    assert "Upgrade Penstock" in answer.json()["detail"]


async def test_a_service_whose_database_is_gone_is_not_ready_but_lives(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "READINESS_CACHE_S", 0.0)
    monkeypatch.setattr(operations, "DATABASE_TIMEOUT_S", 60.0)
    async with Service(Penstock(proxy.url)) as service, asking(service) as http:
        proxy.refuse()
        refused = await http.get("/readyz")
        alive = await http.get("/livez")
        proxy.heal()
        healed = await until(lambda: ready(http), what="the service to be ready again")

    assert refused.status_code == 503
    # Anybody may ask, and learns nothing of where the database is.
    assert refused.json()["detail"] == "The database cannot be reached."
    assert alive.status_code == 200
    assert healed


async def test_a_service_whose_database_is_silent_is_not_ready(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "DATABASE_TIMEOUT_S", 0.2)
    async with Service(Penstock(proxy.url)) as service, asking(service) as http:
        proxy.swallow()
        answer = await http.get("/readyz")
        proxy.heal()
        healed = await until(lambda: ready(http), what="the service to be ready again")

    assert answer.status_code == 503
    assert "has not answered" in answer.json()["detail"]
    assert healed


async def test_the_database_is_asked_once_however_many_probe(
    proxy: Proxy, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "READINESS_CACHE_S", 60.0)
    monkeypatch.setattr(operations, "DATABASE_TIMEOUT_S", 60.0)
    async with Service(Penstock(proxy.url)) as service, asking(service) as http:
        assert await ready(http)
        proxy.refuse()
        assert all(await asyncio.gather(*(ready(http) for _ in range(20))))


async def test_service_without_partitions_is_not_ready(
    http: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    for table in await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits "
        "WHERE inhparent = 'penstock.job_history'::regclass"
    ):
        await connection.execute(f"DROP TABLE {table['name']}")

    answer = await http.get("/readyz")

    assert answer.status_code == 503
    assert "no partition" in answer.json()["detail"]


async def test_a_service_that_stops_is_not_ready(service: Service, http: httpx.AsyncClient) -> None:
    service.ask_to_stop()

    assert (await http.get("/readyz")).status_code == 503
    assert (await http.get("/livez")).status_code == 200


def test_the_probes_are_described() -> None:
    paths = document()["paths"]

    assert set(paths["/livez"]["get"]["responses"]) == {"200"}
    assert set(paths["/readyz"]["get"]["responses"]) == {"200", "503"}


async def test_service_with_unwritten_outcomes_is_not_ready(
    http: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    told = '{"unwritten": {"jobs": 2, "error": "RaiseError", "message": "of a trigger"}}'
    lease = await connection.fetchval("SELECT penstock.open_lease_v1('ada', 3600, $1)", told)
    odd = '{"unwritten": {"jobs": 1, "error": "E", "message": "m", "is_claiming": true}}'
    await connection.fetchval("SELECT penstock.open_lease_v1('bob', 3600, $1)", odd)

    answer = await http.get("/readyz")
    await connection.fetch("SELECT penstock.heartbeat_v1($1, 3600, '{\"unwritten\": null}')", lease)

    assert answer.status_code == 503
    assert "2 jobs cannot be written (RaiseError)" in answer.json()["detail"]
    assert await ready(http)
