"""`manage.py penstock`: the whole command line, with the project's app and database."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command, execute_from_command_line

from penstock.integrations.django import DjangoPenstock, enqueue
from tests.django.bakery.jobs import add, bake
from tests.django.bakery.models import Bread
from tests.django.manage import ROOT, manage
from tests.fixtures.database import Database

WORK = ("penstock", "work", "--drain")


def test_a_worker_runs_the_projects_jobs(app: DjangoPenstock, database: Database) -> None:
    enqueue(bake, "rye")
    enqueue(add.options(queue="elsewhere"), 1, 2)
    ended = manage(database.url, "penstock", "work", "--drain", "--json")
    assert json.loads(ended.stdout)["completed"] == 1
    assert Bread.objects.get().name == "rye"
    # Without QUEUES it serves the queues that the project's tasks name.
    assert "serves default, oven." in ended.stderr
    ended = manage(database.url, "penstock", "work", "--drain", "--json", "--queue", "elsewhere")
    assert json.loads(ended.stdout)["completed"] == 1


def test_djangos_own_options_go_along(app: DjangoPenstock, database: Database) -> None:
    enqueue(bake, "rye")
    manage(
        database.url,
        *("penstock", "work", "--drain"),
        *("--settings", "tests.django.bakery.settings", f"--pythonpath={ROOT}"),
    )
    assert Bread.objects.count() == 1


def test_the_other_commands_have_the_projects_database(
    app: DjangoPenstock, database: Database
) -> None:
    manage(database.url, "penstock", "enqueue", bake.name, '{"name": "rye"}')
    ended = manage(database.url, "penstock", "jobs", "list", "--json")
    assert [job["task"] for job in json.loads(ended.stdout)["jobs"]] == [bake.name]


def test_it_has_the_help_of_the_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    for line, told in (
        ("penstock", "Run the jobs of an app"),
        ("penstock --help", "Run the jobs of an app"),
        ("help penstock", "Run the jobs of an app"),
        ("penstock work --help", "--queue"),
    ):
        execute_from_command_line(["manage.py", *line.split()])
        assert told in capfd.readouterr().out, line


def test_what_is_wrong_is_the_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "penstock", "bake"])
    assert (ended.value.code, "No such command" in capfd.readouterr().err) == (2, True)
    assert "cannot be reached" in manage("host=/nowhere dbname=x", *WORK, code=1).stderr


def test_a_wrong_setting_stops_the_project(tmp_path: Path, database: Database) -> None:
    (tmp_path / "wrong.py").write_text(
        "from tests.django.bakery.settings import *\nPENSTOCK = {'QUEUES': {'oven': 0}}\n"
    )
    ended = manage(database.url, "check", f"--pythonpath={tmp_path}", "--settings=wrong", code=1)
    assert 'The setting PENSTOCK["QUEUES"] is' in ended.stderr


def test_code_can_call_it_too(app: DjangoPenstock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", said := io.StringIO())
    call_command("penstock", "migrate", "--status")
    assert "0001_penstock  applied" in said.getvalue()
    monkeypatch.setattr(sys, "stdout", said := io.StringIO())
    call_command("penstock", "migrate", "--status", "--json")
    assert json.loads(said.getvalue())["due"] == []


@pytest.mark.parametrize("before", [None, "postgresql://mine/jobs"])
def test_it_leaves_the_environment_as_it_was(
    app: DjangoPenstock,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    before: str | None,
) -> None:
    monkeypatch.delenv("PENSTOCK_DATABASE_URL", raising=False)
    if before is not None:
        monkeypatch.setenv("PENSTOCK_DATABASE_URL", before)
    environment = dict(os.environ)
    call_command("penstock", "migrate", "--status")
    assert dict(os.environ) == environment


async def test_further_processes_find_the_project(database: Database) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-B", "-m", "django", "penstock", "work", "--processes", "2"),
        *("--settings", "tests.django.bakery.settings", "--pythonpath", str(ROOT)),
        cwd="/",
        env={"BAKERY_DATABASE": database.url, "PATH": os.environ["PATH"]},
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    serving = 0
    while serving < 2:
        line = await asyncio.wait_for(process.stderr.readline(), timeout=30)
        assert line, "It ended."
        serving += b"serves default, oven." in line
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(process.communicate(), timeout=30)
    assert process.returncode == 0
