"""`penstock queues`: list, pause, resume."""

import json

import asyncpg

from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal


async def test_queues_show_what_waits_in_them(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue_many([shop.greet.prepare("Ada") for _ in range(3)])
    await shop.app.enqueue(shop.greet.options(queue="mail", delay=60), "Bo")
    await shop.app.pause("mail")
    shown = penstock.run("queues", "list")
    assert shown.returncode == 0
    header, default, mail = (line.split() for line in shown.stdout.splitlines())
    assert header == [
        *("queue", "ready", "scheduled", "running", "slots", "oldest", "waits", "workers"),
    ]
    assert default[:5] == ["default", "3", "0", "0", "0"]
    assert mail[:6] == ["mail", "paused", "0", "1", "0", "0"]
    assert default[-3:] == ["none", "serves", "it"]
    found = json.loads(penstock.run("queues", "list", "--json").stdout)["queues"]
    assert [queue["name"] for queue in found] == ["default", "mail"]
    assert found[0]["ready"] == {"number": 3, "is_exact": True}
    assert found[1]["paused_at"].endswith("Z")


async def test_no_queue_at_all(penstock: Commands) -> None:
    assert penstock.run("queues", "list").stdout == "No queue has jobs, workers or settings.\n"


async def test_a_queue_is_paused_and_resumed(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue(shop.greet.options(queue="mail"), "Ada")
    paused = penstock.run("queues", "pause", "mail")
    assert (paused.returncode, paused.stderr) == (0, "")
    assert paused.stdout == "The queue mail is paused: 1 ready job waits, 0 run on.\n"
    assert await shop.app.paused() == ["mail"]
    resumed = penstock.run("queues", "resume", "mail", "--json")
    assert json.loads(resumed.stdout) == {
        "queues": [{"name": "mail", "paused": False, "known": True}]
    }
    assert await shop.app.paused() == []


async def test_a_name_that_nobody_uses_is_said_to_be_one(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue(shop.greet.options(queue="mail"), "Ada")
    paused = penstock.run("queues", "pause", "mial", "--json")
    assert paused.returncode == 0
    assert json.loads(paused.stdout)["queues"] == [{"name": "mial", "paused": True, "known": False}]
    assert paused.stderr == (
        "No waiting job and no worker uses the queue mial. Did you mean mail?\n"
    )
    resumed = penstock.run("queues", "resume", "mail")
    assert resumed.stderr == "The queue mail was not paused.\n"


def test_a_name_that_cannot_be_one(penstock: Commands) -> None:
    refused = penstock.run("queues", "pause", "no good")
    assert refused.returncode == 2
    assert refused.stderr.startswith("The setting queue is 'no good';")


async def test_at_a_terminal_it_fits(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue(shop.greet.options(queue="q" * 100), "Ada")
    with Terminal(penstock, "queues", "list", columns=80) as terminal:
        assert terminal.end() == 0
        assert all(len(line) <= 80 for line in terminal.text.splitlines())
        assert "none serves it" in terminal.text


async def test_more_queues_than_are_shown_are_counted(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue_many(
        shop.greet.options(queue=f"q{number}").prepare("Ada") for number in range(12)
    )
    listed = penstock.run("queues", "list", "--limit", "5")
    assert (
        listed.stderr == "5 queues are shown. 7 more have ready jobs: --limit shows more of them.\n"
    )
    document = json.loads(penstock.run("queues", "list", "--limit", "5", "--json").stdout)
    assert len(document["queues"]) == 5
    assert document["left_out"] == {"number": 7, "is_exact": True}


async def test_health_names_the_worst_causes_and_counts_the_rest(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    await shop.app.enqueue_many(
        shop.greet.options(queue=f"q{number}").prepare("Ada") for number in range(30)
    )
    await connection.execute(
        "UPDATE penstock.job SET ready_at = ready_at - make_interval(mins => 20 + id::integer)"
    )
    told = penstock.run("health").stdout.splitlines()
    assert len(told) == 13
    assert "more causes (" in told[11]
    assert len(json.loads(penstock.run("health", "--json").stdout)["causes"]) > 30
