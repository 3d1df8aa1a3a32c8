"""Jobs past their soft deadline, wherever jobs are shown; and the lanes and limits they have."""

import json
import re

import asyncpg

from tests.cli.command import Commands
from tests.insights.rows import fair, grant, lease, limit, put

DEDICATED = '{"queues": {"imports": 4}, "tenants": ["acme", "bolt"]}'


async def test_late_jobs_are_listed_the_latest_first(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    await fair(connection, late_after=60.0)
    late = await put(connection, "acme", age=100)
    later = await put(connection, "bolt", age=500, limits=["openai"])
    in_time = await put(connection, "acme")
    shown = penstock.run("jobs", "list", "--late")
    first, second = shown.stdout.splitlines()[1:]
    assert (first.split()[0], second.split()[0]) == (str(later), str(late))
    assert "late by 7m " in first
    assert "openai" in first
    assert "\x1f" not in shown.stdout
    found = json.loads(penstock.run("jobs", "list", "--json").stdout)["jobs"]
    by_id = {int(job["id"]): job for job in found}
    assert (by_id[in_time]["late"], by_id[late]["late"] > 30) == (None, True)
    assert (by_id[later]["lane"], by_id[later]["limits"]) == ("bolt", ["openai"])
    found = json.loads(penstock.run("jobs", "list", "--late", "--tenant", "acme", "--json").stdout)
    assert [int(job["id"]) for job in found["jobs"]] == [late]
    first = penstock.run("jobs", "list", "--late", "--limit", "1")
    assert first.stdout.splitlines()[1].split()[0] == str(later)
    assert first.stderr == "There are more that are late: --limit shows more of them.\n"
    found = json.loads(penstock.run("jobs", "list", "--late", "--limit", "2", "--json").stdout)
    assert (len(found["jobs"]), found["more"]) == (2, False)
    ended = penstock.run("jobs", "list", "--late", "--state", "running", "--state", "failed")
    assert (ended.returncode, ended.stdout) == (0, "There are no such jobs.\n")
    assert penstock.run("jobs", "list", "--late", "--all").returncode == 2


async def test_one_late_job_says_by_how_much(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    await fair(connection, late_after=60.0)
    job = await put(connection, "bolt", age=500, limits=["openai"])
    shown = penstock.run("jobs", "show", str(job)).stdout
    assert "late          by 7m " in shown
    assert "UTC, and to be done within 1m 00s" in shown
    assert "queue         imports, lane bolt\n" in shown
    assert "limits        openai\n" in shown
    found = json.loads(penstock.run("jobs", "show", str(job), "--json").stdout)
    assert (found["late"] > 400, found["late_after"]) == (True, 60)
    assert found["turn"]["ahead"] == {"number": 0, "is_exact": True}


async def test_queues_and_statistics_count_what_is_late(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    shut = '{"timezone": "UTC", "open": []}'
    await fair(connection, late_after=60.0, windows=shut)
    await put(connection, "acme", jobs=2, age=100)
    header, imports = (line.split() for line in penstock.run("queues", "list").stdout.splitlines())
    assert header[:5] == ["queue", "ready", "scheduled", "running", "late"]
    assert imports[:7] == ["imports", "never", "open", "2", "0", "0", "2"]
    last = penstock.run("stats").stdout.splitlines()[-1]
    assert last == "now: 2 ready, 0 scheduled, 0 running, 2 late"
    [queue] = json.loads(penstock.run("stats", "--json").stdout)["queues"]
    assert queue["late"] == {"number": 2, "is_exact": True}
    assert queue["window"] == {"is_open": False, "changes_in": None}
    top = penstock.run("top", "--once").stdout
    assert "  2 late  " in top
    assert "lanes of imports, the largest\n" in top
    assert re.search(r"^acme +never open +2 +0 +2 ", top, re.MULTILINE)


async def test_workers_show_their_tenants_and_the_slots_they_hold(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    await limit(connection, "openai", slots=3)
    await grant(connection, await lease(connection, "ada", info=DEDICATED), "openai", 2)
    header, ada = penstock.run("workers", COLUMNS="160").stdout.splitlines()
    assert header.split()[-3:] == ["tenants", "grants", "queues"]
    assert ada.split()[-5:] == ["acme,", "bolt", "openai", "(2)", "imports:4"]
    [worker] = json.loads(penstock.run("workers", "--json").stdout)["workers"]
    assert worker["grants"] == [{"key": "openai", "slots": 2, "wanted": 2}]
