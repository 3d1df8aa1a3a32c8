"""`penstock serve` and `penstock up`, as processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import asyncpg
import httpx
import pytest

from tests.cli.command import Commands, Run
from tests.cli.conftest import Shop
from tests.fixtures.until import until
from tests.fixtures.worker import reaches


def told(run: Run) -> dict[str, Any]:
    """What a service says of itself when it listens."""
    assert run.process.stdout is not None
    line = run.process.stdout.readline()
    assert line, run.log
    document: dict[str, Any] = json.loads(line)
    return document


def started(penstock: Commands, *arguments: str) -> tuple[Run, dict[str, Any]]:
    run = penstock.start(*arguments, "--port", "0", "--json")
    return run, told(run)


async def asked(url: str, headers: dict[str, str] | None = None) -> httpx.Response:
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        return await http.get(url)


async def is_ready(address: str) -> bool:
    """Not at once, where the database has to wait its turn."""
    return bool((await asked(f"{address}/readyz")).json() == {"status": "ready"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serve_answers_until_it_is_told_to_stop(
    penstock: Commands, number: signal.Signals
) -> None:
    run, said = started(penstock, "serve", "shop")

    assert (await asked(f"{said['address']}/livez")).json() == {"status": "alive"}
    await until(lambda: is_ready(said["address"]))
    assert (await asked(said["openapi"])).status_code == 401
    assert said["app"] == "shop"
    assert said["worker"] is None

    run.send(number)
    assert run.end() == 0
    assert "A second signal hurries" in run.log


def test_serve_is_closed_to_whom_it_does_not_know(penstock: Commands) -> None:
    run, said = started(penstock, "serve", "shop")

    assert httpx.get(f"{said['api']}/jobs", timeout=30).status_code == 401
    run.send(signal.SIGTERM)
    assert run.end() == 0


def test_a_port_that_is_taken_is_named_with_who_has_it(penstock: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = penstock.run("serve", "shop", "--port", str(port), "--json")

    assert run.returncode == 1
    error = json.loads(run.stdout)["error"]
    assert error["kind"] == "port_taken"
    assert f"Port {port} of 127.0.0.1 is taken" in error["message"]
    assert f"(process {os.getpid()})" in error["message"]


def test_an_address_of_another_machine_is_refused(penstock: Commands) -> None:
    run = penstock.run("serve", "shop", "--host", "192.0.2.1")

    assert run.returncode == 1
    assert "192.0.2.1 is not an address of this machine" in run.stderr


def test_serve_without_a_database_says_so(penstock: Commands) -> None:
    run = penstock.run(
        "serve", "shop", "--port", "0", "--database-url", "postgresql://127.0.0.1:1/none"
    )

    assert run.returncode == 1
    assert "The database none on 127.0.0.1:1 cannot be reached" in run.stderr


async def test_serve_on_a_schema_that_is_too_old_says_what_to_do(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    newest = await connection.fetchval("SELECT max(number) FROM penstock.migration")
    await connection.execute("DELETE FROM penstock.migration WHERE number = $1", newest)

    run = penstock.run("serve", "shop", "--port", "0")

    assert run.returncode == 1
    assert "penstock migrate" in run.stderr


def test_serve_without_its_extra_says_what_to_install(penstock: Commands) -> None:
    (penstock.folder / "fastapi.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'fastapi'\", name='fastapi')"
    )
    run = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "serve", "shop"],
        cwd=penstock.folder,
        env=penstock.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert run.returncode == 1
    assert "pip install '.[service]' in a clone" in run.stderr


async def test_up_migrates_works_and_serves_in_one(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    run, said = started(penstock, "up", "shop")

    assert said["queues"] == ["default", "mail"]
    await until(lambda: is_ready(said["address"]))
    job = await shop.app.enqueue(shop.greet, "Ada")
    await reaches(shop.app, job, "completed")

    run.send(signal.SIGTERM)
    assert run.end() == 0
    assert "has stopped" in run.log


async def test_the_first_key_is_told_once(penstock: Commands) -> None:
    before, told_before = started(penstock, "serve", "shop")
    run, said = started(penstock, "up")
    again, told_again = started(penstock, "serve", "shop")
    # This database has no pgvector.
    assert said["app"] is None
    assert "The service starts without knowledge: Vectors need the extension pgvector" in run.log

    assert told_before["key"] is None  # what it says goes into a log
    key = {"authorization": f"Bearer {said['key']}"}
    async with httpx.AsyncClient(headers=key, timeout=30) as http:
        answer = await http.post(
            f"{told_again['api']}/jobs", json={"task": "shop.greet", "args": {"name": "Ada"}}
        )
        assert answer.status_code == 202, answer.text
        scraped = await http.get(f"{told_again['address']}/metrics")
        assert 'penstock_queue_depth{queue="default",state="ready"} 1' in scraped.text
    assert told_again["key"] is None
    for each in (before, run, again):
        each.send(signal.SIGTERM)
        assert each.end() == 0


async def test_a_stop_ends_live_connections_before_the_worker(
    penstock: Commands, shop: Shop
) -> None:
    run, said = started(penstock, "up", "shop")
    began = penstock.folder / "began"
    job = await shop.app.enqueue(shop.send, str(began), 600)
    await until(began.exists, what="the job to begin")
    headers = {"authorization": f"Bearer {said['key']}", "accept": "text/event-stream"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        http.stream("GET", f"{said['api']}/live/job/{job.id}") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines)
        run.send(signal.SIGTERM)
        async for _ in lines:
            pass
        # The stream is at its end, and its job still runs.
        assert (await shop.app.get(job)).state == "running"
        began.unlink()

    assert run.end() == 0
    assert (await shop.app.get(job)).state == "completed"


async def test_up_lets_a_running_job_finish_when_it_is_told_to_stop(
    penstock: Commands, shop: Shop
) -> None:
    run, _ = started(penstock, "up", "shop")
    began = penstock.folder / "began"
    job = await shop.app.enqueue(shop.send, str(began), 0.8)
    await until(began.exists, what="the job to begin")

    run.send(signal.SIGTERM)

    assert run.end() == 0
    assert (await shop.app.get(job)).state == "completed"


async def test_a_second_signal_hurries(penstock: Commands, shop: Shop) -> None:
    run, _ = started(penstock, "up", "shop")
    began = penstock.folder / "began"
    job = await shop.app.enqueue(shop.send, str(began), 600)
    await until(began.exists, what="the job to begin")

    run.send(signal.SIGTERM)
    await until(lambda: "A second signal hurries" in run.log, what="the first signal")
    run.send(signal.SIGTERM)

    assert run.end(15) == 0
    assert "the stop is hurried" in run.log
    assert (await shop.app.get(job)).state == "ready"


async def test_up_without_a_database_or_app_starts_postgres_and_serves(bare: Commands) -> None:
    run, said = started(bare, "up")
    try:
        assert said["app"] == "knowledge"
        assert said["queues"] == [
            *("knowledge", "knowledge-embed"),
            *("knowledge-large", "knowledge-small"),
        ]
        assert said["database"].startswith("embedded Postgres")
        await until(lambda: is_ready(said["address"]))
        key = {"authorization": f"Bearer {said['key']}"}
        assert (await asked(f"{said['api']}/jobs", key)).json()["jobs"] == []
    finally:
        run.send(signal.SIGTERM)
        assert run.end() == 0
        bare.run("db", "stop")
        bare.close()


def test_the_access_log_names_paths_and_no_queries(penstock: Commands) -> None:
    run, said = started(penstock, "serve", "shop", "--access-log")

    answer = httpx.get(f"{said['api']}/live/job/1?ticket=secret", timeout=30)
    assert answer.status_code in (401, 403)
    run.send(signal.SIGTERM)
    assert run.end() == 0
    assert '"GET /api/v1/live/job/1 HTTP/1.1" 40' in run.log
    assert "secret" not in run.log


def test_what_all_can_reach_is_warned_of(penstock: Commands) -> None:
    run, said = started(penstock, "serve", "shop", "--host", "0.0.0.0")

    assert "plain http" in run.log
    assert said["key"] is None
    assert "Create one with `penstock keys create`" in run.log
    assert said["address"].startswith("http://127.0.0.1:")
    run.send(signal.SIGTERM)
    assert run.end() == 0
