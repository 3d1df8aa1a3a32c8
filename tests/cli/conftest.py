"""`penstock` in a folder with a small app."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from tests.cli.command import SHOP, Commands
from tests.fixtures.database import Database


@pytest.fixture
def penstock(tmp_path: Path, database: Database) -> Iterator[Commands]:
    """The command, with the test's database in its environment."""
    commands = Commands(tmp_path, database.url)
    yield commands
    commands.close()


@pytest.fixture
def bare(tmp_path: Path) -> Commands:
    """The command without any database."""
    return Commands(tmp_path, None)


class Shop:
    """The app of the commands, in this process: enqueues what they run."""

    def __init__(self, url: str) -> None:
        names: dict[str, Any] = {"__name__": "shop"}
        exec(SHOP, names)
        self.app: Penstock = names["app"]
        self.app.use_database(url)
        self.greet, self.fail, self.snooze = names["greet"], names["fail"], names["snooze"]
        self.send, self.hang, self.die = names["send"], names["hang"], names["die"]
        self.leave = names["leave"]


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    shop = Shop(database.url)
    async with shop.app:
        yield shop
