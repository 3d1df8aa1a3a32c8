"""What the files of deploy/ run, run."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
import yaml

from penstock import Penstock
from penstock.embedded import Server
from tests.cli.command import Commands, psql_folder
from tests.deploy.files import DEPLOY, as_list, command_of, compose, instructions
from tests.fixtures.database import Database
from tests.fixtures.pythons import pythons
from tests.fixtures.server import fast_folder
from tests.fixtures.until import until
from tests.insights.rows import lease, put, run

RIGHTS = ("super", "createrole", "createdb", "replication", "bypassrls")


@pytest.fixture
def deployed(tmp_path: Path, database: Database) -> Iterator[Commands]:
    """Commands where the app of deploy/ is."""
    commands = Commands(tmp_path, database.url)
    shutil.copy(DEPLOY / "app" / "shop.py", tmp_path / "shop.py")
    yield commands
    commands.close()


def test_the_service_of_the_image_answers_its_own_health_check(deployed: Commands) -> None:
    command = as_list(instructions("CMD")[0])
    service = deployed.start(*command, "--port", "0", "--json")
    assert service.process.stdout is not None
    port = json.loads(service.process.stdout.readline())["address"].rpartition(":")[2]

    [check] = instructions("HEALTHCHECK")
    given = check.partition("CMD ")[2].replace("8420", port)
    _, *probe = as_list(re.sub(r"timeout=\d+", "timeout=60", given))
    assert asked(probe) == 0
    service.send(signal.SIGTERM)
    assert service.end() == 0
    assert asked(probe) == 1


def asked(probe: list[str]) -> int:
    """The exit code of Python with these arguments."""
    return pythons().run(probe, DEPLOY, dict(os.environ), stdin="").returncode


def test_the_migrations_of_compose_and_systemd_run(deployed: Commands) -> None:
    for command in (
        compose()["services"]["migrate"]["command"],
        command_of(DEPLOY / "systemd" / "penstock-migrate.service"),
    ):
        assert deployed.run(*command).returncode == 0


async def test_role_of_compose_suffices_without_being_superuser() -> None:
    [mount] = [each for each in compose()["services"]["db"]["volumes"] if "initdb.d" in each]
    script = DEPLOY / mount.partition(":")[0]
    folder = tempfile.TemporaryDirectory(prefix="penstock-test-role-", dir=fast_folder())
    with folder as place, (server := Server(Path(place, "server"))).hold() as url:
        admin = await asyncpg.connect(server.admin_url())
        # As the image of Postgres has it before.
        await admin.execute("DROP DATABASE penstock")
        await admin.execute("DROP ROLE penstock")
        environment = {
            "PATH": f"{psql_folder()}{os.pathsep}{os.environ['PATH']}",
            "PGHOST": str(server.status().socket_dir),
            "PENSTOCK_PASSWORD": "it's $ecret",
        }
        await asyncio.to_thread(subprocess.run, [script], env=environment, check=True)
        role = await admin.fetchrow("SELECT * FROM pg_authid WHERE rolname = 'penstock'")
        await admin.close()
        assert role["rolpassword"].startswith("SCRAM-SHA-256$")
        assert role["rolcanlogin"]
        assert not any(role[f"rol{right}"] for right in RIGHTS)

        app = Penstock(url)

        @app.task
        async def greet(name: str) -> str:
            return f"Hello, {name}"

        assert await app.migrate()
        async with app:
            job = await app.enqueue(greet, "Ada")
            await app.worker().drain()
            assert await app.wait(job, timeout=30) == "Hello, Ada"


@pytest.mark.parametrize("kind", ["serve", "work"])
async def test_systemd_is_told_when_it_is_ready_and_when_it_stops(
    deployed: Commands, kind: str
) -> None:
    place = deployed.folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(place))
        channel.settimeout(30)
        deployed.environment["NOTIFY_SOCKET"] = str(place)
        command = command_of(DEPLOY / "systemd" / f"penstock-{kind}.service")
        free = ["--port", "0"] if kind == "serve" else ["--metrics", "0"]
        started = deployed.start(*command, *free)
        assert channel.recv(100) == b"READY=1"
        started.send(signal.SIGTERM)
        assert channel.recv(100) == b"STOPPING=1"
    assert started.end() == 0


async def test_the_worker_of_compose_works_and_stops(
    deployed: Commands, connection: asyncpg.Connection
) -> None:
    command = compose()["services"]["work"]["command"]
    worker = deployed.start(*command, "--metrics", "0")
    assert deployed.run("enqueue", "shop.greet", '{"name": "Ada"}').returncode == 0

    async def done() -> bool:
        found: str | None = await connection.fetchval("SELECT state FROM penstock.job_history")
        return found == "completed"

    await until(done, 30, what="the job to be done")
    worker.send(signal.SIGTERM)
    assert worker.end() == 0


async def test_the_query_of_keda_counts_what_waits_and_what_runs(
    connection: asyncpg.Connection,
) -> None:
    [trigger] = yaml.safe_load((DEPLOY / "keda.yaml").read_text())["spec"]["triggers"]
    query = trigger["metadata"]["query"]
    assert await connection.fetchval(query) == 0

    first = await put(connection, queue="default", jobs=5)
    await put(connection, queue="other", jobs=7)
    await run(connection, await lease(connection, "a"), first)
    for when in ("-1 minute", "1 hour"):
        await connection.execute(
            "INSERT INTO penstock.job (state, task, queue, run_at) "
            f"VALUES ('scheduled', 'later', 'default', now() + interval '{when}')"
        )

    [row] = await connection.fetch(query)
    # Five of the queue, one of which runs, and one that is due.
    assert list(row.values()) == [6]


def test_a_supervisor_that_is_gone_hurts_nobody(deployed: Commands) -> None:
    deployed.environment["NOTIFY_SOCKET"] = os.devnull
    service = deployed.start("serve", "shop", "--port", "0", "--json")
    assert service.process.stdout is not None
    assert service.process.stdout.readline()
    service.send(signal.SIGTERM)
    assert service.end() == 0
    assert "Could not send" in service.log
