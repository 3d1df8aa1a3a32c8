"""`penstock workers`."""

import json
import os
import socket

import asyncpg

from penstock import Penstock
from tests.cli.command import Commands
from tests.cli.conftest import Shop
from tests.cli.terminal import Terminal
from tests.fixtures.until import until
from tests.fixtures.worker import ghost, worker_of


async def test_workers_show_what_they_serve_and_who_is_lost(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    await shop.app.enqueue(shop.greet, "Ada")
    await shop.app.pause("mail")
    await ghost(connection, seconds=0.01)
    # The commands keep this process busy: it must not lose its lease and its term meanwhile.
    patient = {"lease": 60.0, "term": 60.0, "sweep": 60.0}
    async with (
        Penstock(shop.app.url) as other,
        worker_of(other, {"mail": 5}, name="one", **patient),
    ):
        await until(lambda: _leads(connection), what="the worker to lead")
        shown = penstock.run("workers", COLUMNS="140")
        found = json.loads(penstock.run("workers", "--json").stdout)["workers"]
        with Terminal(penstock, "workers", columns=80) as terminal:
            assert terminal.end() == 0
            assert all(len(line) <= 80 for line in terminal.text.splitlines())
    header, *lines = shown.stdout.splitlines()
    assert header.split() == [
        *("worker", "running", "started", "heartbeat", "host", "pid", "queues"),
    ]
    by_name = {line.split()[0]: line for line in lines}
    assert by_name["ghost"].split()[1] == "lost"
    assert by_name["one"].split()[1:3] == ["leader", "0/5"]
    assert by_name["one"].rstrip().endswith("mail:5")
    one = next(worker for worker in found if worker["name"] == "one")
    assert (one["host"], one["pid"]) == (socket.gethostname(), os.getpid())
    assert (one["is_alive"], one["is_leader"]) == (True, True)


async def _leads(connection: asyncpg.Connection) -> bool:
    led = "SELECT count(*) FROM penstock.leader WHERE role = 'maintenance'"
    found = await connection.fetchval(led)
    return bool(found)


async def test_nobody_works(penstock: Commands) -> None:
    shown = penstock.run("workers")
    assert (shown.returncode, shown.stdout) == (
        0,
        "No worker is alive. Start one: penstock work APP\n",
    )


async def test_more_workers_than_are_shown_are_counted(
    penstock: Commands, shop: Shop, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "SELECT penstock.open_lease_v1('w' || n, 60, '{}') FROM generate_series(1, 5) AS n"
    )
    listed = penstock.run("workers", "--limit", "2")
    assert listed.stderr == (
        "2 workers are shown, living ones first. 3 more are left out: --limit shows more of them.\n"
    )
    document = json.loads(penstock.run("workers", "--limit", "2", "--json").stdout)
    assert (len(document["workers"]), document["left_out"], document["alive"]) == (2, 3, 5)
    assert penstock.run("workers").stderr == ""
