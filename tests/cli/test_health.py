"""`penstock health`, and the metrics of a worker."""

import json
import signal
import socket
from collections.abc import Iterator
from datetime import timedelta

import asyncpg
import httpx
import pytest

from penstock.service.server import bind_socket
from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.fixtures.until import until


def test_a_healthy_queue_ends_with_0(penstock: Commands) -> None:
    shown = penstock.run("health")

    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("healthy\n")


async def test_a_degraded_queue_ends_with_1(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue(shop.greet, "Ada")

    shown = penstock.run("health", "--json", PENSTOCK_HEALTH="oldest_ready_degraded=0,unserved=99")

    assert shown.returncode == 1
    document = json.loads(shown.stdout)
    assert document["status"] == "degraded"
    assert [cause["check"] for cause in document["causes"]] == ["oldest-ready"]
    assert document["pending"]["number"] == 1


async def test_a_queue_that_is_down_ends_with_2(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    await shop.app.enqueue(shop.greet, "Ada")
    await connection.execute(
        "UPDATE penstock.job SET ready_at = ready_at - $1::interval", timedelta(minutes=1)
    )

    shown = penstock.run("health")

    assert shown.returncode == 2
    assert "down: The queue default has 1 ready, and no worker serves it" in shown.stdout


def test_a_database_that_is_away_is_down(penstock: Commands) -> None:
    away = "postgresql://me:secret@127.0.0.1:1/none"
    shown = penstock.run("health", "--json", "--database-url", away)

    assert shown.returncode == 2
    document = json.loads(shown.stdout)
    assert document["status"] == "down"
    assert "secret" not in shown.stdout
    assert "cannot be reached" in document["causes"][0]["told"]


def test_a_threshold_that_is_none_is_refused(penstock: Commands) -> None:
    shown = penstock.run("health", PENSTOCK_HEALTH="errors=1")

    assert shown.returncode == 2
    assert "PENSTOCK_HEALTH" in shown.stderr


@pytest.fixture
def port() -> Iterator[int]:
    """One that nobody listens at; it is bound here, so that the system gives it to nobody else."""
    with bind_socket("127.0.0.1", 0) as free:
        yield free.getsockname()[1]


async def test_a_worker_tells_prometheus_what_it_did(
    penstock: Commands, shop: Shop, port: int
) -> None:
    worker = penstock.start("work", "shop", "--metrics", str(port))
    await shop.app.wait(await shop.app.enqueue(shop.greet, "Ada"), timeout=30)

    async def counted() -> bool:
        async with httpx.AsyncClient(timeout=30) as http:
            answer = await http.get(f"http://127.0.0.1:{port}/metrics")
        wanted = (
            'penstock_jobs_finished_total{outcome="completed",queue="default",task="shop.greet"} 1'
        )
        return wanted in answer.text

    await until(counted, what="the job to be counted")
    worker.send(signal.SIGTERM)
    assert worker.end() == 0


def test_a_port_for_metrics_that_is_taken_is_named(penstock: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        shown = penstock.run("work", "shop", "--metrics", number)

    assert shown.returncode == 1
    assert f"Port {number} of 127.0.0.1 is taken" in shown.stderr


@pytest.mark.parametrize("given", [["--metrics", "here"], ["--metrics", "1", "--processes", "2"]])
def test_a_port_for_metrics_that_makes_no_sense(penstock: Commands, given: list[str]) -> None:
    assert penstock.run("work", "shop", *given).returncode == 2
