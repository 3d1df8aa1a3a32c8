"""The example: a shop whose server and worker run as its users start them."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import django
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.django.manage import ROOT
from tests.fixtures.database import Database
from tests.fixtures.until import until

SHOP = ROOT / "examples" / "django_shop"
VARIABLES = {"dbname": "PGDATABASE", "user": "PGUSER", "host": "PGHOST", "port": "PGPORT"}


class Shop:
    """The shop's `manage.py`, and its pages."""

    def __init__(self, database: Database, folder: Path, port: int) -> None:
        given = conninfo_to_dict(database.url)
        cleared = {key: value for key, value in os.environ.items() if "DJANGO" not in key}
        self._environment = cleared | {
            variable: str(given[name]) for name, variable in VARIABLES.items() if name in given
        }
        self._folder = folder
        self.address = f"127.0.0.1:{port}"

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        with (self._folder / arguments[0]).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-B", "manage.py", *arguments],
                cwd=SHOP,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)
        finally:
            process.kill()
            process.wait()

    def log(self, command: str) -> str:
        return (self._folder / command).read_text()

    async def ask(self, path: str, **form: str) -> tuple[int, Any]:
        """What a page answers: its status and its JSON."""

        def ask() -> tuple[int, Any]:
            body = urlencode(form).encode() if form else None
            try:
                with urlopen(f"http://{self.address}{path}", body, timeout=30) as answer:
                    return answer.status, json.load(answer)
            except HTTPError as refused:
                with refused:
                    return refused.code, json.load(refused)

        return await asyncio.to_thread(ask)


@pytest.fixture
def port() -> Iterator[int]:
    """One that nobody listens at; it is bound here, so that the system gives it to nobody else."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", 0))
        yield free.getsockname()[1]


@pytest.fixture
async def shop(database: Database, tmp_path: Path, port: int) -> AsyncIterator[Shop]:
    shop = Shop(database, tmp_path, port)
    with shop.started("migrate") as migrate:
        assert await asyncio.to_thread(migrate.wait, 30) == 0, shop.log("migrate")
    with shop.started("runserver", "--noreload", shop.address) as server:

        async def answers() -> bool:
            assert server.poll() is None, shop.log("runserver")
            try:
                _, writer = await asyncio.open_connection(*shop.address.split(":"))
            except OSError:
                return False
            writer.close()
            return True

        await until(answers, timeout=30, what="the server to answer")
        yield shop


async def test_jobs_of_an_order_run_and_a_refused_order_has_none(
    shop: Shop, database: Database
) -> None:
    assert await shop.ask("/orders", item="dragon") == (409, {"error": "out of stock"})
    async with database.connect() as connection:
        assert await connection.fetchval("SELECT count(*) FROM shop_order") == 0
        assert await connection.fetchval("SELECT count(*) FROM penstock.job_all") == 0

    with shop.started("penstock", "work") as worker:
        status, placed = await shop.ask("/orders", item="kettle")
        assert status == 202

        async def is_thanked() -> bool:
            assert worker.poll() is None, shop.log("penstock")
            _, shown = await shop.ask(f"/orders/{placed['order']}")
            has_receipt = shown["receipt"] == "receipt for a kettle, attempt 1"
            return has_receipt and shown["thanked"] == (django.VERSION >= (6, 0))

        await until(is_thanked, timeout=30, what="the receipt")
    assert worker.returncode == 0, shop.log("penstock")
