"""`penstock db` from the terminal."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands.db import app
from penstock.embedded import Server
from tests.fixtures.forking import forker
from tests.fixtures.until import until


def db(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.fixture(autouse=True)
def data_dir(server: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(server.data_dir))
    return server.data_dir


def test_start_leaves_the_server_running_until_stop(server: Server) -> None:
    started = db("start")
    assert started.exit_code == 0
    assert server.url() in started.stdout
    assert server.status().running
    assert db("status").exit_code == 0
    again = json.loads(db("start", "--json").stdout)
    assert again["url"] == server.url()
    status = json.loads(db("status", "--json").stdout)
    assert status == {key: value for key, value in again.items() if key != "url"}
    assert status["running"] is True
    assert status["data_dir"] == str(server.data_dir)
    assert json.loads(db("url", "--json").stdout) == {"url": server.url()}
    assert "has stopped" in db("stop").stdout
    assert not server.status().running


def test_status_says_by_its_exit_code_that_no_server_runs(data_dir: Path) -> None:
    status = db("status")
    assert status.exit_code == 3
    assert status.stdout == f"No server runs in {data_dir}.\n"


def test_url_of_a_server_that_does_not_run_says_so_beside_it(server: Server) -> None:
    printed = db("url")
    assert printed.exit_code == 0
    assert printed.stdout == server.url() + "\n"
    assert "penstock db start" in printed.stderr


def test_stop_tells_who_used_the_server(server: Server) -> None:
    with server.hold():
        assert f"in use by process {os.getpid()}." in db("stop").stdout
    assert "No server runs" in db("stop").stdout


def test_the_folder_can_be_named_by_an_option(tmp_path: Path) -> None:
    status = db("status", "--data-dir", str(tmp_path / "other"), "--json")
    assert json.loads(status.stdout)["data_dir"] == str(tmp_path / "other")


def test_an_error_is_one_message_without_traceback(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").touch()
    failed = db("start", "--data-dir", str(tmp_path))
    assert failed.exit_code == 1
    assert failed.stdout == ""
    assert failed.stderr.startswith("The folder")
    assert failed.stderr.count("\n") == 1


def test_own_server_is_neither_started_nor_stopped(
    monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", "postgresql://me@db.example/mine")
    assert "nothing to start" in db("start").stderr
    assert "nothing to stop" in db("stop").stderr
    assert db("url").stdout == "postgresql://me@db.example/mine\n"
    assert not server.status().running


async def test_psql_starts_the_server_and_holds_it_as_long_as_it_runs(server: Server) -> None:
    assert _psql("--no-align", "--tuples-only", "-c", "SELECT 6 * 7").stdout == "42\n"
    await until(lambda: not server.status().running, what="the server to stop after psql")


def test_psql_returns_its_exit_code_and_takes_a_url(server: Server) -> None:
    with server.hold():
        shown = _psql("-Atc", "SELECT current_user", "--database-url", server.admin_url())
        assert shown.stdout == "postgres\n"
        failed = _psql("--set=ON_ERROR_STOP=1", "-c", "SELECT nonsense")
    assert failed.returncode == 1
    assert "nonsense" in failed.stderr


def _psql(*arguments: str) -> subprocess.CompletedProcess[str]:
    # psql replaces the process that runs it, so it needs one of its own.
    return forker().run(["db", "psql", *arguments], Path.cwd(), dict(os.environ), stdin="")
