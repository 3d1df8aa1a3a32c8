"""`penstock doctor` as people and monitoring run it: its output and its exit code."""

import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from penstock.doctor import CHECKS
from tests.cli.command import Commands
from tests.cli.conftest import Shop, shop
from tests.fixtures.database import Database
from tests.fixtures.until import until

__all__ = ["shop"]

HEALTHY, COULD_NOT, USAGE, SICK = 0, 1, 2, 3


@pytest.fixture
def penstock(tmp_path: Path, database: Database) -> Iterator[Commands]:
    commands = Commands(tmp_path, database.url)
    yield commands
    commands.close()


def verdicts(run: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The verdict of each check, from the one JSON document on standard output."""
    document = json.loads(run.stdout)
    return {each["check"]: each["verdict"] for each in document["checks"]}


async def serving(connection: asyncpg.Connection) -> None:
    """Wait until a worker has told all of itself, and leads."""

    async def serves() -> bool:
        found: bool = await connection.fetchval(
            "SELECT EXISTS (SELECT FROM penstock.lease WHERE info @> '{\"hears\": true}') "
            "AND EXISTS (SELECT FROM penstock.leader)"
        )
        return found

    await until(serves, 30, what="the worker to serve")


@pytest.mark.usefixtures("durable")
async def test_a_healthy_queue_with_a_living_worker_is_all_ok(
    penstock: Commands, connection: asyncpg.Connection, shop: Shop
) -> None:
    penstock.start("work", "shop", "--heartbeat", "500ms", "--lease", "60s")
    await serving(connection)
    await shop.app.wait(await shop.app.enqueue(shop.greet, "Ada"), timeout=30)
    run = penstock.run("doctor", "--json", "--strict", "--app", "shop")
    assert set(verdicts(run).values()) == {"ok"}, run.stdout
    assert list(verdicts(run)) == [check.name for check in CHECKS]
    assert run.returncode == HEALTHY
    assert run.stderr == ""


async def test_what_a_killed_worker_leaves_is_told(
    penstock: Commands, connection: asyncpg.Connection, shop: Shop, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    work = penstock.start("work", "shop", "--lease", "60s", "--queue", "mail")
    await shop.app.enqueue(shop.send, str(started), 600)
    await until(started.exists, 30, what="the job to run")
    work.send(signal.SIGKILL)
    work.end()
    await shop.app.enqueue(shop.send, str(started), 600)
    # As if half an hour had passed since.
    await connection.execute(
        "UPDATE penstock.lease SET renewed_at = renewed_at - interval '30 min', "
        "expires_at = expires_at - interval '30 min'"
    )
    await connection.execute(
        "UPDATE penstock.job SET ready_at = ready_at - interval '30 min' WHERE state = 'ready'"
    )
    run = penstock.run("doctor", "--skip", "settings", "--json")
    found = verdicts(run)
    assert run.returncode == SICK
    assert (found["lost-jobs"], found["unserved-jobs"]) == ("error", "error")
    assert found["workers"] == "warning"


async def test_warnings_exit_with_0_unless_strict(penstock: Commands) -> None:
    relaxed = penstock.run("doctor", "--only", "workers", "--only", "clock")
    assert (relaxed.returncode, relaxed.stderr) == (HEALTHY, "")
    assert "No worker is alive." in relaxed.stdout
    assert "    penstock work APP" in relaxed.stdout.splitlines()
    assert relaxed.stdout.splitlines()[-1] == "1 warning, 1 ok."
    strict = penstock.run("doctor", "--only", "workers", "--only", "clock", "--strict")
    assert strict.returncode == SICK


def test_commands_to_paste_are_not_wrapped(penstock: Commands) -> None:
    schema = "a_schema_with_a_rather_long_name"
    run = penstock.run("doctor", "--only", "schema", "--schema", schema, COLUMNS="40")
    assert f"    penstock migrate --schema {schema}" in run.stdout.splitlines()


@pytest.mark.parametrize("options", ["", "--json", "--list"])
def test_exit_code_survives_a_closed_pipe(penstock: Commands, options: str) -> None:
    done = penstock.shell(f"penstock doctor --only workers {options} | true; exit $PIPESTATUS")
    assert (done.returncode, done.stderr) == (HEALTHY, "")
    done = penstock.shell("penstock doctor --only workers --strict | true; exit $PIPESTATUS")
    assert (done.returncode, done.stderr) == (SICK, "")


async def test_an_error_makes_the_exit_code_3_and_says_what_to_do(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    await connection.execute("DROP FUNCTION penstock.fence_v1")
    run = penstock.run("doctor", "--only", "schema")
    assert run.returncode == SICK
    assert "fence_v1" in run.stdout
    assert "CREATE FUNCTION" in run.stdout
    assert run.stdout.splitlines()[-1] == "1 error, 0 ok."


def test_a_database_that_is_away_is_a_finding_and_no_crash(penstock: Commands) -> None:
    url = "postgresql://ada:secret@127.0.0.1:1/shop"
    run = penstock.run("doctor", "--database-url", url, "--json")
    assert run.returncode == SICK
    document = json.loads(run.stdout)
    assert document["verdict"] == "error"
    assert document["database"] == "shop on 127.0.0.1:1"
    assert document["counts"]["skipped"] == len(verdicts(run)) - 1
    assert "secret" not in run.stdout + run.stderr


def test_unreachable_hosts_are_a_finding_without_a_crash(penstock: Commands) -> None:
    """As during a failover: just when people look."""
    url = "postgresql://ada:secret@127.0.0.1:1,127.0.0.1:2/shop?target_session_attrs=read-write"
    run = penstock.run("doctor", "--database-url", url, "--json")
    assert run.returncode == SICK
    document = json.loads(run.stdout)
    assert document["database"] == "shop on 127.0.0.1:1, 127.0.0.1:2"
    [connection, *_] = document["checks"]
    assert connection["findings"][0]["paste"] == [
        "pg_isready --host 127.0.0.1 --port 1",
        "pg_isready --host 127.0.0.1 --port 2",
    ]
    assert "secret" not in run.stdout + run.stderr


def test_a_check_that_could_not_look_is_not_health(penstock: Commands) -> None:
    run = penstock.run("doctor", "--schema", "elsewhere", "--only", "stuck-jobs")
    assert run.returncode == SICK


def test_checks_are_listed_and_chosen_by_name(penstock: Commands) -> None:
    listed = penstock.run("doctor", "--list")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [
        check.name for check in CHECKS
    ]
    run = penstock.run("doctor", "--only", "clock", "--only", "schema", "--skip", "clock", "--json")
    assert verdicts(run) == {"schema": "ok"}
    unknown = penstock.run("doctor", "--only", "weather")
    assert unknown.returncode == USAGE
    assert "there is no check weather" in unknown.stderr


def test_it_makes_no_database_where_none_is(tmp_path: Path) -> None:
    run = Commands(tmp_path, None).run("doctor")
    assert run.returncode == COULD_NOT
    assert "No database is named" in run.stderr
    assert not (tmp_path / ".penstock").exists()


async def test_an_app_is_compared_with_what_waits(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue(shop.greet, "Ada")
    fine = penstock.run("doctor", "--app", "shop", "--only", "app", "--json")
    assert verdicts(fine) == {"app": "ok"}
    (penstock.folder / "bare.py").write_text("from penstock import Penstock\napp = Penstock()\n")
    bare: Any = penstock.run("doctor", "--app", "bare", "--only", "app")
    assert bare.returncode == SICK
    assert "the app bare has no such task" in " ".join(bare.stdout.split())
    missing = penstock.run("doctor", "--app", "nowhere")
    assert missing.returncode == COULD_NOT


def pasted(run: subprocess.CompletedProcess[str]) -> list[list[str]]:
    """The arguments of the `penstock` commands that a report says to run."""
    findings = [each for check in json.loads(run.stdout)["checks"] for each in check["findings"]]
    lines = [shlex.split(line) for finding in findings for line in finding["paste"]]
    return [arguments for program, *arguments in lines if program == "penstock"]


async def test_a_command_to_paste_heals(penstock: Commands, shop: Shop) -> None:
    await shop.app.pause("mail")
    await shop.app.enqueue(shop.send, "nowhere", 0)
    check = ("doctor", "--only", "paused-queues", "--strict")
    ill = penstock.run(*check, "--json")
    assert ill.returncode == SICK
    [command] = pasted(ill)
    assert penstock.run(*command).returncode == HEALTHY
    assert penstock.run(*check).returncode == HEALTHY


async def test_the_commands_about_failed_jobs_can_be_run(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    await shop.app.enqueue_many([shop.fail.prepare() for _ in range(10)])
    penstock.run("work", "shop", "--drain", "--queue", "default")
    [show, *lists, redrive] = pasted(penstock.run("doctor", "--only", "failed-jobs", "--json"))
    assert "no such customer" in penstock.run(*show).stdout
    for each in lists:
        assert "shop.fail" in penstock.run(*each).stdout
    assert "10" in penstock.run(*redrive, "--yes").stdout


def test_verbose_shows_what_each_check_asks(penstock: Commands) -> None:
    run = penstock.run("doctor", "--only", "clock", "--verbose")
    assert "Does this machine's clock agree with the database's?" in run.stdout
