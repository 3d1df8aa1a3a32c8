"""`penstock dead`: look at dead letters, bring them back, erase them."""

import json
from datetime import datetime, timedelta

import asyncpg
import pytest

from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal
from tests.fixtures.dead import dead
from tests.fixtures.worker import worker_of


async def test_a_list_says_why_when_and_after_how_many_attempts(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    await dead(connection, 2, task="other")
    job = await shop.app.enqueue(shop.fail)
    await worker_of(shop.app).drain()
    shown = penstock.run("dead", "list", "--task", "shop.fail")
    heads, line = shown.stdout.splitlines()
    assert heads.split() == ["id", "task", "reason", "failed", "tries", "queue", "last", "error"]
    assert line.split()[:3] == [job.id, "shop.fail", "exhausted"]
    assert line.endswith("ValueError: no such customer")
    page = json.loads(penstock.run("dead", "list", "--limit", "2", "--json").stdout)
    assert [each["task"] for each in page["jobs"]] == ["shop.fail", "other"]
    assert page["jobs"][0]["errors"][0]["type"] == "ValueError"
    rest = json.loads(penstock.run("dead", "list", "--after", page["after"], "--json").stdout)
    assert [each["task"] for each in rest["jobs"]] == ["other"]
    everything = penstock.run("dead", "list", "--all", "--error", "ValueError")
    assert len(everything.stdout.splitlines()) == 4
    nothing = penstock.run("dead", "list", "--reason", "discarded")
    assert (nothing.returncode, nothing.stdout) == (0, "There are no such dead letters.\n")


async def test_a_summary_counts_what_failed_alike(
    penstock: Commands, connection: asyncpg.Connection
) -> None:
    await dead(connection, 3, task="send")
    [last] = await dead(connection, 1, task="fetch", reason="discarded")
    shown = penstock.run("dead", "summary").stdout.splitlines()
    assert [line.split()[:3] for line in shown[1:]] == [
        ["3", "send", "exhausted"],
        ["1", "fetch", "discarded"],
    ]
    assert f"{last}  ValueError: never works" in shown[2]
    found = json.loads(penstock.run("dead", "summary", "--task", "send", "--json").stdout)
    assert (found["number"], found["is_exact"], len(found["groups"])) == (3, True, 1)
    short = penstock.run("dead", "summary", "--among", "2")
    assert "These are the latest 2; there may be more" in short.stderr


async def test_named_letters_come_back_and_the_others_are_told(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    first, second = await dead(connection, 2)
    waiting = await shop.app.enqueue(shop.greet, "Ada")
    done = penstock.run("dead", "redrive", first, second, waiting.id, "nonsense")
    assert done.returncode == 4
    assert done.stdout == (
        "2 jobs were redriven. 1 job was left unchanged: there is no job with this id. 1 job was "
        "left unchanged: ready.\n"
    )
    assert (await shop.app.get(first)).state == "ready"


async def test_a_filter_at_a_rate_says_when_the_last_is_due(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    ids = await dead(connection, 4)
    await dead(connection, 1, task="other")
    which = ("--task", "broken", "--rate", "6/min")
    asked = penstock.run("dead", "redrive", *which, "--dry-run")
    assert asked.stdout.splitlines()[-1] == (
        "4 jobs would be redriven at 6/min, over 40.0 s; nothing was changed."
    )
    asked = penstock.run("dead", "redrive", *which, "--dry-run", "--json")
    plan = json.loads(asked.stdout)
    assert (plan["dry_run"], plan["matched"], plan["more"]) == (True, 4, False)
    assert [group["task"] for group in plan["groups"]] == ["broken"]
    done = penstock.run("dead", "redrive", *which, "--limit", "3", "--yes", "--json")
    answer = json.loads(done.stdout)
    assert (answer["changed"], answer["left"]) == (3, [])
    due = [(await shop.app.get(job)).run_at for job in ids[:3]]
    assert [later - due[0] for later in due[1:]] == [timedelta(seconds=10), timedelta(seconds=20)]
    assert datetime.fromisoformat(answer["due"]) == due[-1]
    last = penstock.run("dead", "redrive", *which, "--yes")
    assert last.stdout.startswith("1 job was redriven. At 6/min the last of them is due at ")


async def test_a_filter_asks_first(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    [job] = await dead(connection, 1)
    with Terminal(penstock, "dead", "purge", "--all") as terminal:
        terminal.wait_for("1 job will be purged.\nGo on? [y/N]: ")
        terminal.press("n\n")
        assert terminal.end() == 1
    assert (await shop.app.get(job)).state == "failed"
    refused = penstock.run("dead", "redrive", "--all")
    assert "Use --yes to confirm in advance" in refused.stderr
    asked = penstock.run("dead", "purge", job, "999", "--dry-run", "--json")
    assert json.loads(asked.stdout) == {
        "dry_run": True,
        "matched": 1,
        "more": False,
        "ids": [job],
    }
    assert (await shop.app.get(job)).state == "failed"


async def test_a_purge_of_a_tenant(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    await dead(connection, 2, tenant="acme")
    [other] = await dead(connection, 1, tenant="globex")
    missing = penstock.run("dead", "purge", other, "--tenant", "acme")
    assert (missing.returncode, missing.stdout) == (
        3,
        "0 jobs were purged. 1 job was left unchanged: there is no job with this id.\n",
    )
    done = penstock.run("dead", "purge", "--tenant", "acme", "--yes")
    assert (done.returncode, done.stdout) == (0, "2 jobs were purged.\n")
    assert [job.id for job in (await shop.app.dead_letters()).jobs] == [other]


@pytest.mark.parametrize("which", [[], ["42", "--queue", "mail"], ["42", "--all"]])
def test_letters_are_named_or_filtered(bare: Commands, which: list[str]) -> None:
    refused = bare.run("dead", "redrive", *which)
    assert refused.returncode == 2
    assert "name the jobs in one way: by their ids, by at least one filter" in refused.stderr


def test_a_rate_that_is_none(bare: Commands) -> None:
    refused = bare.run("dead", "redrive", "42", "--rate", "fast")
    assert refused.returncode == 2
    assert "a number per second above 0" in refused.stderr


async def test_retention_is_set_listed_and_removed(penstock: Commands, shop: Shop) -> None:
    assert penstock.run("retention", "list").stdout == (
        "No rule is set: failed jobs are kept for 30 days, others for 7.\n"
    )
    done = penstock.run("retention", "set", "failed", "90", "--queue", "mail", "--tenant", "acme")
    assert done.stdout == (
        "Failed jobs of the queue mail and the tenant acme are kept for 90 days from now on.\n"
    )
    assert "mail" in done.stderr  # nobody has seen such a queue yet
    penstock.run("retention", "set", "completed", "1", "--json")
    shown = [line.split() for line in penstock.run("retention", "list").stdout.splitlines()]
    assert shown == [
        ["state", "queue", "tenant", "days"],
        ["completed", "any", "any", "1"],
        ["failed", "mail", "acme", "90"],
    ]
    gone = penstock.run("retention", "remove", "completed")
    assert gone.stdout == "No rule is set for completed jobs any more.\n"
    again = penstock.run("retention", "remove", "completed", "--json")
    assert again.returncode == 3
    assert json.loads(again.stdout)["error"]["kind"] == "setting_not_found"
    assert penstock.run("retention", "set", "ready", "3").returncode == 2
    assert "kept for 3 days" in penstock.run("retention", "set", "failed", "3d").stdout
    refused = penstock.run("retention", "set", "failed", "3h")
    assert refused.returncode == 2
    assert "not a whole number of days" in refused.stderr
