"""`penstock lanes list` and `penstock limits list`."""

import json
from datetime import UTC, datetime

import asyncpg

from tests.cli.command import Commands
from tests.cli.terminal import Terminal
from tests.insights.rows import bucket, fair, grant, lease, limit, put, run, set_lane


async def test_lanes_are_listed_the_largest_first(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    await fair(connection, late_after=60.0)
    await put(connection, "acme", jobs=2, limits=["openai"], age=100)
    bolt = await put(connection, "bolt", jobs=4)
    await run(connection, await lease(connection, "ada"), bolt)
    await set_lane(connection, "acme", weight=3, paused_at=datetime.now(UTC))
    shown = penstock.run("lanes", "list", "imports")
    assert (shown.returncode, shown.stderr) == (0, "")
    header, first, second = (line.split() for line in shown.stdout.splitlines())
    assert header == [*("lane", "ready", "running", "late", "oldest", "waits", "weight", "limits")]
    assert first[:4] == ["bolt", "3", "1", "0"]
    assert second[:5] == ["acme", "paused", "2", "0", "2"]
    assert second[-2:] == ["3", "openai"]
    assert "\x1f" not in shown.stdout
    found = json.loads(penstock.run("lanes", "list", "imports", "--json").stdout)
    assert (found["queue"], found["number"]["number"], found["following"]) == ("imports", 2, None)
    assert [lane["name"] for lane in found["lanes"]] == ["bolt", "acme"]
    assert found["lanes"][1]["limits"] == ["openai"]
    cut = penstock.run("lanes", "list", "imports", "--limit", "1")
    assert cut.stderr == "These are 1 of 2 lanes: --limit shows more.\n"


def test_a_queue_without_lanes(penstock: Commands) -> None:
    shown = penstock.run("lanes", "list", "imports")
    assert shown.stdout == "No lane of the queue imports has jobs or settings.\n"
    assert penstock.run("lanes", "list", "no good").returncode == 2


async def test_limits_are_listed_with_who_holds_them(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    nothing = penstock.run("limits", "list")
    assert nothing.stdout.startswith("There are no limits. Set one: ")
    await limit(connection, "openai", slots=3)
    await limit(connection, "account:*", rate=2.0, burst=10.0)
    ada, bo = await lease(connection, "ada"), await lease(connection, "bo")
    await grant(connection, ada, "openai", 3)
    await grant(connection, bo, "openai", 0, wanted=2)
    await bucket(connection, "account:7", 4, closed=3600)
    await put(connection, jobs=5, limits=["openai"])
    shown = penstock.run("limits", "list")
    assert (shown.returncode, shown.stderr) == (0, "")
    header, openai, seven, accounts = shown.stdout.splitlines()
    assert header.split() == [
        *("key", "slots", "ready", "rate", "level", "held", "by"),
    ]
    assert openai.split() == ["openai", "3/3", "5", "ada", "(3)"]
    assert seven.startswith("account:7  closed for ")
    assert seven.split()[-2:] == ["2.0/s", "0/10"]
    assert accounts.split() == ["account:*", "each", "key", "2.0/s", "10"]
    found = json.loads(penstock.run("limits", "list", "--json").stdout)["limits"]
    assert [each["key"] for each in found] == ["openai", "account:7", "account:*"]
    assert found[0]["workers"][1] == {"worker": "bo", "slots": 0, "wanted": 2}
    assert found[1]["rule"] == "account:*"


async def test_limits_list_shows_blocking_limits_first(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    await limit(connection, "hot", slots=0)
    await limit(connection, "early", rate=25 / 3, burst=25 / 3)
    await limit(connection, "busy", rate=0.001, burst=1.0)
    await bucket(connection, "busy", 0.9)
    await put(connection, jobs=7, limits=["hot"])
    shown = penstock.run("limits", "list").stdout.splitlines()
    assert [line.split() for line in shown[1:]] == [
        ["hot", "none", "runs", "0/0", "7"],
        ["busy", "3.6/h", "0/1"],
        ["early", "8.3/s", "8/8.3"],
    ]


async def test_at_a_terminal_they_fit(penstock: Commands, connection: asyncpg.Connection) -> None:
    await fair(connection)
    await put(connection, "a" * 150, limits=["k" * 100])
    await limit(connection, "k" * 100, slots=1, rate=0.5, burst=5.0)
    await grant(connection, await lease(connection, "w" * 60), "k" * 100, 1)
    for command in (["lanes", "list", "imports"], ["limits", "list"]):
        with Terminal(penstock, *command, columns=80) as terminal:
            assert terminal.end() == 0
            assert all(len(line) <= 80 for line in terminal.text.splitlines())
