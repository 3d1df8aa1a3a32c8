"""`penstock stats`."""

import json
import re

import pytest

from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal
from tests.fixtures.worker import worker_of


async def test_what_ended_by_window_and_task(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue_many([shop.greet.prepare(str(n)) for n in range(3)])
    await shop.app.enqueue(shop.fail)
    await worker_of(shop.app).drain()
    await shop.app.enqueue(shop.greet, "later")
    shown = penstock.run("stats")
    assert shown.returncode == 0
    lines = [line.split() for line in shown.stdout.splitlines() if line]
    assert [line[0] for line in lines[1:4]] == ["minute", "hour", "day"]
    assert lines[1][1:6] == ["4.0/min", "3", "1", "0", "25.0%"]
    assert {line[0]: line[2:4] for line in lines[5:7]} == {
        "shop.greet": ["3", "0"],
        "shop.fail": ["0", "1"],
    }
    assert shown.stdout.splitlines()[-1] == "now: 1 ready, 0 scheduled, 0 running"


async def test_the_document(penstock: Commands, shop: Shop) -> None:
    await shop.app.enqueue(shop.greet, "Ada")
    await worker_of(shop.app).drain()
    found = json.loads(penstock.run("stats", "--window", "15m", "--json").stdout)
    [window] = found["throughput"]
    assert (window["window"], window["total"]["completed"]) == (900.0, 1)
    assert window["tasks"][0]["task"] == "shop.greet"
    assert window["total"]["ran"]["p50"] > 0


async def test_nothing_has_ended(penstock: Commands) -> None:
    with Terminal(penstock, "stats", columns=80) as terminal:
        assert terminal.end() == 0
        assert all(len(line) <= 80 for line in terminal.text.splitlines())
        assert "minute" in terminal.text


@pytest.mark.parametrize("columns", [80, 200])
async def test_numbers_stay_near_to_their_names(
    penstock: Commands, shop: Shop, columns: int
) -> None:
    await shop.app.enqueue(shop.greet, "Ada")
    await worker_of(shop.app).drain()
    with Terminal(penstock, "stats", columns=columns) as terminal:
        assert terminal.end() == 0
        lines = terminal.text.splitlines()
    assert all(len(line) <= columns for line in lines)
    assert any(re.match(r"shop\.greet {1,20}1\.0/", line) for line in lines)


@pytest.mark.parametrize("window", ["0", "30d", "long"])
def test_a_window_that_makes_no_sense(bare: Commands, window: str) -> None:
    assert bare.run("stats", "--window", window).returncode == 2
