"""Health over HTTP."""

import asyncpg
import httpx
import pytest

from penstock import Penstock
from penstock.service import Service, operations
from tests.fixtures.service import asked, document, service_of
from tests.insights.rows import lease, put


async def test_a_healthy_queue(http: httpx.AsyncClient, connection: asyncpg.Connection) -> None:
    await lease(connection, "a")
    await put(connection)

    answer = await http.get("/health")

    assert answer.status_code == 200
    document = answer.json()
    assert (document["status"], document["causes"]) == ("healthy", [])
    assert document["pending"] == {"number": 1, "is_exact": True}
    assert document["workers"] == 1
    assert document.keys() >= {"mean_seconds", "error_rate", "per_hour", "last_processed"}


async def test_a_queue_that_is_down_is_a_503_with_the_same_document(
    http: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    await put(connection, age=60)

    answer = await http.get("/health")

    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["status"] == "down"
    assert answer.json()["causes"][0]["check"] == "unserved"


async def test_health_is_kept_for_a_moment(
    app: Penstock, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "HEALTH_CACHE_S", 60.0)
    async with service_of(app) as service, asked(service.asgi) as http:
        first = await http.get("/health")
        await put(connection, age=60)

        assert (await http.get("/health")).json() == first.json()


async def test_health_is_not_for_a_caller_of_one_tenant(service: Service) -> None:
    async with asked(service.asgi, tenant="acme") as http:
        assert (await http.get("/health")).status_code == 403
    async with asked(service.asgi, scopes="enqueue") as http:
        assert (await http.get("/health")).status_code == 403


def test_health_is_described() -> None:
    answers = document()["paths"]["/api/v1/health"]["get"]["responses"]

    assert set(answers) >= {"200", "401", "403", "503"}
    assert set(answers["503"]["content"]) == {"application/json", "application/problem+json"}
