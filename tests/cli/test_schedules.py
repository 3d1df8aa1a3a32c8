"""`penstock schedules`: what it changes, and what it says."""

import asyncio
import json
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from tests.cli.command import Commands
from tests.fixtures.database import Database

Result = CompletedProcess[str]
Run = Callable[..., Result]


@pytest.fixture
def run(penstock: Commands) -> Run:
    def run(line: str, *more: str) -> Result:
        return penstock.run("schedules", *line.split(), *more, NO_COLOR="1")

    return run


@pytest.fixture
def nightly(database: Database) -> None:
    """A schedule that code declares."""
    shop = Penstock(database.url)

    @shop.task(name="shop.report", queue="reports")
    def report(kind: str) -> None: ...

    shop.schedule("nightly", report.prepare("sales"), cron="0 3 * * *", timezone="Asia/Tokyo")
    with shop.sync as jobs:
        jobs.sync_schedules()


def said(done: Result, code: int = 0) -> str:
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.strip() if code == 0 else done.stderr.strip()


def document(done: Result) -> Any:
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_schedule_is_made_changed_run_and_removed(run: Run) -> None:
    made = said(run("set hello --task shop.greet --every 10m --args", '{"name": "Ada"}'))
    assert made.startswith("The schedule hello enqueues shop.greet every 10m 00s, next at 20")
    changed = document(run("set hello --timezone Europe/Berlin --json --cron", "0 3 * * *"))
    assert (changed["cron"], changed["every"], changed["args"]) == (
        "0 3 * * *",
        None,
        {"name": "Ada"},
    )
    job = document(run("run hello --json"))["job"]
    assert said(run("run hello")) == f"Job {int(job) + 1} of the schedule hello was enqueued."
    assert said(run("remove hello")) == "The schedule hello was removed."
    assert "There is no schedule 'hello'" in said(run("remove hello"), 3)


def test_what_a_change_does_not_name_stays(run: Run) -> None:
    args = '{"name": "Ada"}'
    run("set hello --task shop.greet --every 10m --queue slow --tenant acme --args", args)

    def seen(*change: str) -> tuple[Any, ...]:
        found = document(run("set hello --json", *change))
        return found["task"], found["queue"], found["tenant"], found["args"]

    assert seen("--priority", "3") == ("shop.greet", "slow", "acme", {"name": "Ada"})
    assert seen("--task", "shop.greet", "--queue", "q") == (
        *("shop.greet", "q", "acme"),
        {"name": "Ada"},
    )
    assert seen("--args", '{"name": "Bo"}') == ("shop.greet", "q", "acme", {"name": "Bo"})
    assert seen("--task", "shop.part") == ("shop.part", "q", "acme", {"name": "Bo"})
    assert "give --task as well" in said(run("set other --every 10m --queue q"), 2)


def test_the_list_says_what_each_does_and_what_is_the_matter(run: Run, nightly: None) -> None:
    run("set hello --task shop.greet --every 10m")
    run("pause hello")
    lines = said(run("list")).splitlines()
    assert lines[0].split() == ["schedule", "task", "when", "next", "(UTC)", "last", "(UTC)"]
    assert lines[1].split()[:6] == ["hello", "shop.greet", "every", "10m", "00s", "never"]
    assert lines[1].endswith("paused")
    assert "by 0 3 * * * in Asia/Tokyo" in lines[2]
    assert lines[2].endswith("no worker declares it")
    found = document(run("list --json"))
    assert [each["name"] for each in found["schedules"]] == ["hello", "nightly"]


def test_show_lists_the_next_ticks_and_the_last_fires(run: Run) -> None:
    run("set hello --task shop.greet --jitter 30s --cron", "0 3 * * *")
    run("run hello")
    page = said(run("show hello"))
    assert page.count(" 03:00:00 UTC\n") == 5
    assert "up to 30.0 s" in page
    assert "manual  job 1 ready" in page
    found = document(run("show hello --ticks 2 --json"))
    assert len(found["upcoming"]) == 2
    [fire] = found["fires"]
    assert (fire["kind"], fire["state"]) == ("manual", "ready")


def test_a_change_of_one_from_code_is_undone_by_a_reset(run: Run, nightly: None) -> None:
    changed = run("set nightly --json --cron", "0 5 * * *")
    assert document(changed)["edited_at"] is not None
    assert "No living worker declares this schedule" in changed.stderr
    again = document(run("reset nightly --json"))
    assert (again["cron"], again["edited_at"]) == ("0 3 * * *", None)
    removed = run("remove nightly")
    assert "the next worker that starts with that code creates it again" in removed.stderr


def test_a_pause_is_said_and_lasts_until_it_is_resumed(run: Run) -> None:
    run("set hello --task shop.greet --every 10m")
    assert said(run("pause hello")) == "The schedule hello is paused."
    assert "The schedule hello is paused" in run("set hello --every 5m").stderr
    assert said(run("resume hello")).startswith("The schedule hello enqueues shop.greet every 5m")


async def test_a_task_that_no_living_worker_knows_is_said(
    run: Run, connection: asyncpg.Connection
) -> None:
    made = await asyncio.to_thread(run, "set hello --task shop.greet --every 10m")
    assert "No living worker knows the task shop.greet" in made.stderr
    info = '{"queues": {"default": 1}, "tasks": ["shop.send"]}'
    await connection.execute("SELECT penstock.open_lease_v1('ada', 60, $1)", info)
    for line in ("list", "show hello"):
        assert "no worker knows its task" in said(await asyncio.to_thread(run, line))
    known = await asyncio.to_thread(run, "set hello --task shop.send")
    assert known.stderr == ""
    assert "no worker" not in said(await asyncio.to_thread(run, "list"))


@pytest.mark.parametrize(
    ("line", "more", "code", "told"),
    [
        ("set hello", (), 2, "nothing to change"),
        ("set hello --queue mail --every 10m", (), 2, "give --task as well"),
        ("set hello --every 10m", (), 3, "There is no schedule 'hello'"),
        ("set hello --every 10m", (), 3, "`penstock schedules set NAME --task TASK"),
        ("set hello --task shop.greet --cron", ("every night",), 2, "The setting cron is"),
        ("set hello --task shop.greet --cron @daily --timezone Mars", (), 2, "time zone"),
        ("set hello --task shop.greet --every 1m --overlap maybe", (), 2, "skip or queue_one"),
        ("show hello", (), 3, "There is no schedule 'hello'"),
        ("pause hello", (), 3, "There is no schedule 'hello'"),
    ],
)
def test_what_makes_no_sense_is_said(
    run: Run, line: str, more: tuple[str, ...], code: int, told: str
) -> None:
    done = run(line, *more)
    assert done.returncode == code, done.stdout + done.stderr
    assert told in " ".join(done.stderr.split())


def test_where_there_is_none_the_list_says_so(run: Run) -> None:
    assert said(run("list")) == "There are no schedules."
