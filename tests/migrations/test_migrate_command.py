"""`penstock migrate` at the terminal."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.commands.migrate import migrate
from penstock.cli.framework import Command, Commands
from penstock.migrate import migrate as apply_all
from penstock.sql import migrations
from tests.fixtures.database import Database

pytestmark = pytest.mark.any_server

ALL = [name for _, name in migrations()]

app = typer.Typer(cls=Commands)
app.command(cls=Command)(migrate)


@app.callback()
def penstock() -> None:
    """As `penstock` does, so that the command has its name."""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "DATA_DIR", "SCHEMA"):
        monkeypatch.delenv(f"PENSTOCK_{name}", raising=False)


async def run(*arguments: str, answer: str | None = None) -> Any:
    """In a thread of its own, where no loop runs, as at a terminal."""
    return await asyncio.to_thread(
        CliRunner().invoke, app, ["migrate", *arguments], input=answer, catch_exceptions=False
    )


async def test_it_makes_the_tables_and_says_so(empty: Database) -> None:
    done = await run("--database-url", empty.url)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"The schema penstock was changed by {', '.join(ALL)}.\n"
    done = await run("--database-url", empty.url)
    assert done.stdout == "The schema penstock is up to date.\n"


async def test_the_environment_names_the_database_and_the_schema(
    empty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", empty.url)
    monkeypatch.setenv("PENSTOCK_SCHEMA", "jobs")
    done = await run("--json")
    assert json.loads(done.stdout) == {"schema": "jobs", "changed": ALL, "rls": False}


async def test_without_an_address_it_is_the_embedded_server(tmp_path: Path) -> None:
    done = await run("--data-dir", str(tmp_path / "server"))
    assert (done.exit_code, done.stderr) == (0, "")
    done = await run("--data-dir", str(tmp_path / "server"), "--status")
    assert done.exit_code == 0


async def test_the_status_tells_what_is_due_by_its_exit_code(empty: Database) -> None:
    found = await run("--database-url", empty.url, "--status")
    assert (found.exit_code, found.stdout) == (3, "".join(f"{name}  due\n" for name in ALL))
    await apply_all(empty.url)
    found = await run("--database-url", empty.url, "--status", "--json")
    document = json.loads(found.stdout)
    assert found.exit_code == 0
    assert (document["schema"], document["due"]) == ("penstock", [])
    assert [each["name"] for each in document["migrations"]] == ALL


async def test_the_sql_needs_no_database(empty: Database) -> None:
    printed = await run("--sql", "--schema", "jobs")
    assert printed.exit_code == 0
    async with empty.connect() as connection:
        await connection.execute(printed.stdout)
        assert await connection.fetchval("SELECT jobs.enqueue('work')") == 1
    printed = await run("--sql", "--schema", "jobs", "--database-url", empty.url)
    assert printed.stdout == "-- Nothing is pending.\n"


async def test_a_rename_is_told_by_the_status_and_mended_by_the_sql(database: Database) -> None:
    where = ("--database-url", database.url, "--schema", "jobs")
    async with database.connect() as connection:
        await connection.execute("ALTER SCHEMA penstock RENAME TO jobs")
        found = await run(*where, "--status")
        assert found.exit_code == 3
        assert "jobs  renamed from penstock, due" in found.stdout.splitlines()
        found = await run(*where, "--status", "--json")
        document = json.loads(found.stdout)
        assert (document["due"], document["renamed"]) == ([], {"jobs": "penstock"})

        await connection.execute((await run(*where, "--sql")).stdout)
        assert (await run(*where, "--sql")).stdout == "-- Nothing is pending.\n"
        found = await run(*where, "--status", "--json")
        assert (found.exit_code, json.loads(found.stdout)["renamed"]) == (0, {})
        assert await connection.fetchval("SELECT jobs.enqueue('work')") == 1


@pytest.mark.parametrize("answer", ["n\n", ""])
async def test_going_back_asks_and_says_what_is_lost(database: Database, answer: str) -> None:
    refused = await run("--database-url", database.url, "--to", "0", answer=answer)
    assert refused.exit_code == 1
    assert "jobs are lost" in refused.stderr
    assert (await run("--database-url", database.url, "--status")).exit_code == 0


@pytest.mark.parametrize("how", [{"answer": "y\n"}, {"yes": True}])
async def test_going_back_does_so_after_a_yes(database: Database, how: dict[str, Any]) -> None:
    flags = ["--yes"] if how.get("yes") else []
    done = await run("--database-url", database.url, "--to", "0", *flags, answer=how.get("answer"))
    assert done.exit_code == 0
    assert (await run("--database-url", database.url, "--status")).exit_code == 3


async def test_going_to_where_it_is_does_not_ask(database: Database) -> None:
    newest = str(migrations()[-1][0])
    done = await run("--database-url", database.url, "--to", newest)
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--database-url", "postgresql://127.0.0.1:1/none"], 1, "cannot be reached"),
        (["--database-url", "mysql://localhost"], 2, "it must be postgresql://"),
        (["--to", "9999", "--sql"], 2, "at most"),
        (["--schema", "x" * 60, "--sql"], 2, "1 to 50 bytes"),
    ],
)
async def test_what_is_wrong_is_said_on_stderr(
    arguments: list[str], code: int, message: str
) -> None:
    failed = await run(*arguments)
    assert (failed.exit_code, failed.stdout) == (code, "")
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("arguments", [["--status", "--sql"], ["--status", "--to", "1"]])
async def test_options_that_contradict_each_other_are_refused(arguments: list[str]) -> None:
    assert (await run(*arguments)).exit_code == 2


async def test_a_role_without_the_right_is_told_which(database: Database, empty: Database) -> None:
    async with empty.connect() as connection:
        await connection.execute("CREATE SCHEMA theirs")
        await connection.execute("REVOKE ALL ON SCHEMA theirs FROM CURRENT_USER")
    failed = await run("--database-url", empty.url, "--schema", "theirs")
    assert failed.exit_code == 1
    assert "GRANT CREATE ON DATABASE" in failed.stderr


async def test_the_help_has_examples() -> None:
    shown = (await run("--help")).stdout
    assert "penstock migrate --to 0" in shown
