"""`penstock top`: at a terminal it stays and changes, elsewhere it is one picture."""

import json
import re

from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal
from tests.fixtures.database import Database
from tests.fixtures.worker import cut_connections, worker_of


async def test_without_a_terminal_it_is_one_picture(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue(shop.fail)
    await worker_of(shop.app).drain()
    await shop.app.enqueue(shop.greet, "Ada")
    shown = penstock.run("top")
    assert shown.returncode == 0
    assert shown.stdout.startswith("penstock ")
    for expected in ("1 ready", "queues", "No worker is alive.", "Nothing runs.", "failed last"):
        assert expected in shown.stdout
    assert "ValueError: no such customer" in shown.stdout


async def test_its_document(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue(shop.greet, "Ada")
    found = json.loads(penstock.run("top", "--json").stdout)
    lists = {"queues", "lanes", "workers", "running", "failures", "throughput"}
    assert set(found) == {*lists, "queues_left_out", "workers_left_out"}
    assert found["lanes"] is None
    assert found["queues"][0]["ready"]["number"] == 1
    assert [window["window"] for window in found["throughput"]] == [10.0, 60.0]


async def test_a_list_that_does_not_fit_says_how_long_it_is(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue_many(
        shop.greet.options(queue=f"q{number}").prepare("Ada") for number in range(30)
    )
    with Terminal(penstock, "top", "--every", "200ms", columns=90, rows=24) as terminal:
        terminal.wait_for("of 30")
        terminal.press("q")
        assert terminal.end() == 0
    assert " of 30" not in penstock.run("top").stdout


async def test_it_is_drawn_anew_until_q_is_pressed(penstock: Commands, shop: Shop) -> None:
    with Terminal(penstock, "top", "--every", "200ms", columns=90, rows=24) as terminal:
        terminal.wait_for("0 ready")
        await shop.app.enqueue(shop.greet, "Ada")
        terminal.wait_for("1 ready")
        terminal.press("x")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.raw.count("\x1b[?1049h") == terminal.raw.count("\x1b[?1049l") == 1
        assert terminal.present_modes == terminal.modes


async def test_it_fits_its_terminal(penstock: Commands, shop: Shop) -> None:
    for number in range(40):
        await shop.app.pause(f"queue-{number}")
    with Terminal(penstock, "top", "--every", "1h", columns=80, rows=24) as terminal:
        terminal.wait_for("Nothing has failed.")
        terminal.press("q")
        assert terminal.end() == 0
    screen = terminal.raw.partition("\x1b[?1049h")[2].partition("\x1b[?1049l")[0]
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen).replace("\r", "").split("\n")
    assert max(map(len, lines)) <= 80
    assert sum("queue-" in line for line in lines) < 12


async def test_ctrl_c_leaves_the_terminal_as_it_was(penstock: Commands, shop: Shop) -> None:
    with Terminal(penstock, "top") as terminal:
        terminal.wait_for("ready")
        terminal.press("\x03")
        assert terminal.end() == 130
        assert terminal.present_modes == terminal.modes
        assert "Traceback" not in terminal.text


async def test_an_outage_is_shown_and_survived(
    penstock: Commands, shop: Shop, database: Database
) -> None:
    with Terminal(penstock, "top", "--every", "200ms", columns=160) as terminal:
        terminal.wait_for("0 ready")
        await cut_connections(database.admin_url, "penstock cli")
        await shop.app.enqueue(shop.greet, "Ada")
        terminal.wait_for("1 ready")
        terminal.press("q")
        assert terminal.end() == 0


def test_too_often(bare: Commands) -> None:
    assert bare.run("top", "--every", "10ms").returncode == 2
