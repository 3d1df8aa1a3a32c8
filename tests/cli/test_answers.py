"""How every command answers: one document, one message, one exit code."""

import json
import re
import signal
from pathlib import Path

import asyncpg
import pytest
from typer.testing import CliRunner

from penstock.cli.framework import Command, Exit, group
from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.fixtures.address import with_database, with_role
from tests.fixtures.database import Database
from tests.fixtures.until import until

ROOT = Path(__file__).parents[2]

LOOKS = (
    ["jobs", "list"],
    ["queues", "list"],
    ["workers"],
    ["stats"],
    ["top"],
    ["migrate", "--status"],
    ["migrate"],
    ["db", "url"],
    ["lanes", "list", "mail"],
    ["limits", "list"],
)


def test_the_answer_is_one_json_document_and_nothing_else(penstock: Commands) -> None:
    for command in LOOKS:
        done = penstock.run(*command, "--json")
        assert (done.returncode, done.stderr) == (0, ""), command
        assert isinstance(json.loads(done.stdout), dict), command
        assert done.stdout.count("\n") == 1, command


@pytest.mark.parametrize(
    "command",
    [*LOOKS[:5], ["migrate"], ["jobs", "retry", "1"], ["enqueue", "shop.greet"]],
    ids=" ".join,
)
def test_unreachable_database_is_an_error_in_text_and_json(
    bare: Commands, command: list[str]
) -> None:
    away = ("--database-url", "postgresql://me:secret@127.0.0.1:1/none")
    done = bare.run(*command, *away, "--json")
    assert done.returncode == 1
    assert "cannot be reached" in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "database_unreachable"
    assert (error["message"], error["exit_code"]) == (done.stderr.strip(), 1)


@pytest.mark.parametrize("command", [["jobs", "list"], ["migrate"]], ids=" ".join)
def test_programs_can_tell_apart_why_a_database_cannot_be_used(
    bare: Commands, database: Database, command: list[str]
) -> None:
    def kind(url: str) -> str:
        done = bare.run(*command, "--database-url", url, "--json")
        assert done.returncode == 1
        error = json.loads(done.stdout)["error"]
        assert error["message"] == done.stderr.strip()
        return str(error["kind"])

    assert kind(with_role(database.direct_url, "nobody")) == "access_denied"
    assert kind(with_database(database.direct_url, "nowhere")) == "database_missing"


@pytest.mark.parametrize("url", ["postgresql://[bad", "postgresql://me:secret@host:99999/shop"])
def test_an_address_that_is_none_is_refused_in_words_and_in_json(bare: Commands, url: str) -> None:
    done = bare.run("jobs", "list", "--database-url", url, "--json")
    assert done.returncode == 2
    assert done.stderr.startswith("The setting database_url is ")
    assert "secret" not in done.stderr
    assert json.loads(done.stdout)["error"]["kind"] == "config_error"


def test_tables_that_are_not_there_are_named(penstock: Commands) -> None:
    for command in LOOKS[:5]:
        done = penstock.run(*command, "--schema", "elsewhere", "--json")
        assert done.returncode == 1, command
        assert json.loads(done.stdout)["error"]["kind"] == "schema_missing", command
        assert "Run `penstock migrate --schema elsewhere` first." in done.stderr, command


@pytest.mark.parametrize("command", LOOKS[:5], ids=" ".join)
def test_looking_makes_no_database(bare: Commands, command: list[str]) -> None:
    done = bare.run(*command, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["kind"] == "no_database"
    assert done.stderr.startswith("No database is named, and there is no embedded one in")
    assert not (bare.folder / ".penstock").exists()


def test_a_command_line_that_makes_no_sense_is_told_in_both_ways(bare: Commands) -> None:
    done = bare.run("jobs", "list", "--bogus", "--json")
    assert done.returncode == 2
    assert "Usage: penstock jobs list" in done.stderr
    error = json.loads(done.stdout)["error"]
    assert (error["kind"], error["exit_code"]) == ("usage", 2)
    assert "--bogus" in error["message"]
    done = bare.run("jobs", "list", "--bogus")
    assert (done.returncode, done.stdout) == (2, "")


def test_the_options_of_the_database_come_before_the_environment(penstock: Commands) -> None:
    away = "postgresql://127.0.0.1:1/none"
    url = penstock.environment["PENSTOCK_DATABASE_URL"]
    done = penstock.run("queues", "list", "--database-url", url, PENSTOCK_DATABASE_URL=away)
    assert done.returncode == 0
    done = penstock.run("queues", "list", "--schema", "penstock", PENSTOCK_SCHEMA="elsewhere")
    assert done.returncode == 0


def test_a_traceback_is_shown_on_request_for_every_command(bare: Commands) -> None:
    (bare.folder / "full").mkdir()
    (bare.folder / "full" / "precious.txt").touch()
    for command in (["db", "start", "--data-dir", "full"], ["jobs", "list"]):
        failed = bare.run(*command)
        assert failed.returncode == 1
        assert failed.stderr.count("\n") == 1
        assert "Traceback (most recent call last)" in bare.run("--traceback", *command).stderr


@pytest.mark.parametrize("name", ["within", ""], ids=["in a group", "at the top"])
def test_unexpected_error_is_a_message_and_a_document(name: str) -> None:
    top, inner = group("top"), group("within")

    @top.command("stumble", cls=Command)
    @inner.command("stumble", cls=Command)
    def stumble(json: bool = False) -> None:
        raise ValueError("odd")

    top.add_typer(inner)
    done = CliRunner().invoke(top, [*filter(None, [name]), "stumble", "--json"])
    assert done.exit_code == 1
    assert done.stderr.startswith("The command failed with an unexpected error: ValueError: odd. ")
    assert json.loads(done.stdout)["error"]["kind"] == "unexpected"


def test_an_answer_that_cannot_be_written_is_an_error_in_words(penstock: Commands) -> None:
    for command in (
        "doctor --list",
        "doctor --list --json",
        "db url",
        "jobs show 1 --json",
        "stats",
    ):
        done = penstock.shell(f"penstock {command} > /dev/full")
        assert done.returncode in (1, 3), command
        assert done.stderr.count("\n") == 1, command
        unwritten = "Standard output cannot be written to"
        expected = "There is no job 1" if "show" in command else unwritten
        assert done.stderr.startswith(expected), command


async def test_ctrl_c_ends_any_command_quietly(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    job = await shop.app.enqueue(shop.greet, "Ada")
    following = penstock.start("jobs", "show", job.id, "--follow", "--json")
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock cli'"
    await until(lambda: connection.fetchval(sessions), what="the command to look")
    following.send(signal.SIGINT)
    assert following.end() == 130
    assert following.log == ""
    error = json.loads(following.output)["error"]
    assert (error["kind"], error["exit_code"]) == ("interrupted", 130)


def test_the_exit_codes_are_documented() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    table = dict(re.findall(r"^\| (\d+) \| (.+?) \|$", page, re.MULTILINE))
    assert table == {str(code.value): code.meaning for code in Exit}
