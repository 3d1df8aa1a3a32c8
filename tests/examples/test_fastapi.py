"""The FastAPI example as its users see it: over a socket, stopped by a signal."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from penstock import Penstock
from tests.examples.test_examples import EXAMPLES
from tests.fixtures.database import Database
from tests.fixtures.pythons import pythons
from tests.fixtures.until import until

STARTED = "Application startup complete"


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def server(database: Database, port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*pythons().command, "fastapi_shop.py"],
            cwd=EXAMPLES,
            env={
                **os.environ,
                "PENSTOCK_DATABASE_URL": database.url,
                "PORT": str(port),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        yield process
        process.kill()
        process.wait()


@pytest.fixture
async def shop(server: subprocess.Popen[bytes], port: int, log: Path):
    def started() -> bool:
        assert server.poll() is None, log.read_text()
        return STARTED in log.read_text()

    await until(started, timeout=30, what="the server to start")
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as shop:
        yield shop


async def test_an_order_is_stored_with_its_job_and_a_refused_one_leaves_neither(
    shop: httpx.AsyncClient, database: Database
) -> None:
    answer = await shop.post("/orders", json={"item": "kettle"})
    assert answer.status_code == 202
    job = answer.json()["job"]

    async def under_way() -> bool:
        return (await shop.get(f"/jobs/{job}")).json()["message"] == "wrapping the kettle"

    await until(under_way, what="progress")
    result = await shop.get(f"/jobs/{job}/result", timeout=30)
    assert result.json() == "order 1 is packed"
    assert (await shop.get(f"/jobs/{job}")).json()["state"] == "completed"
    assert (await shop.get("/jobs/999")).status_code == 404

    assert (await shop.post("/orders", json={"item": "dragon"})).status_code == 409
    async with database.connect() as connection:
        assert await connection.fetchval("SELECT count(*) FROM shop_order") == 1
        assert await connection.fetchval("SELECT count(*) FROM penstock.job_all") == 1


async def test_a_server_that_is_stopped_finishes_the_job_it_runs(
    shop: httpx.AsyncClient, server: subprocess.Popen[bytes], database: Database
) -> None:
    job = (await shop.post("/orders", json={"item": "kettle"})).json()["job"]
    async with Penstock(database.url) as app:

        async def runs() -> bool:
            return (await app.get(job)).state == "running"

        await until(runs, what="the job to run")
        server.send_signal(signal.SIGTERM)
        await until(lambda: server.poll() is not None, timeout=30, what="the server to stop")
        assert (await app.get(job)).state == "completed"
