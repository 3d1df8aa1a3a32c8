"""The FastAPI example as its users see it: over a socket, stopped by a signal."""

import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from penstock import Penstock
from tests.examples.test_examples import EXAMPLES
from tests.fixtures.database import Database
from tests.fixtures.pythons import pythons
from tests.fixtures.until import until

STARTED = re.compile(r"running on (http://127\.0\.0\.1:\d+)")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def server(database: Database, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*pythons().command, "fastapi_shop.py"],
            cwd=EXAMPLES,
            env={
                **os.environ,
                "PENSTOCK_DATABASE_URL": database.url,
                "PORT": "0",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        yield process
        process.kill()
        process.wait()


@pytest.fixture
async def shop(server: subprocess.Popen[bytes], log: Path):
    def started() -> re.Match[str] | None:
        assert server.poll() is None, log.read_text()
        return STARTED.search(log.read_text())

    said = await until(started, 90, what="the server to start")
    async with httpx.AsyncClient(base_url=said[1], timeout=60) as shop:
        yield shop


@asynccontextmanager
async def no_job_ends(database: Database) -> AsyncIterator[None]:
    """What runs goes on until the end of the block, however late a look at it comes."""
    async with database.connect() as connection, connection.transaction():
        await connection.execute("LOCK TABLE penstock.job_history IN SHARE MODE")
        yield


async def test_order_is_stored_with_its_job_or_not_at_all(
    shop: httpx.AsyncClient, database: Database
) -> None:
    async def under_way() -> bool:
        return (await shop.get(f"/jobs/{job}")).json()["message"] == "wrapping the kettle"

    async with no_job_ends(database):
        answer = await shop.post("/orders", json={"item": "kettle"})
        assert answer.status_code == 202
        job = answer.json()["job"]
        await until(under_way, what="progress")
    result = await shop.get(f"/jobs/{job}/result")
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
    async with Penstock(database.url) as app:

        async def runs() -> bool:
            return (await app.get(job)).state == "running"

        async with no_job_ends(database):
            job = (await shop.post("/orders", json={"item": "kettle"})).json()["job"]
            await until(runs, what="the job to run")
            server.send_signal(signal.SIGTERM)
        await until(lambda: server.poll() is not None, 90, what="the server to stop")
        assert (await app.get(job)).state == "completed"
