"""Which databases are there for tests: only what is in those may be worked off and moved in time.

A test that forgot its fixture has the app on the database that the program uses. There `drain`
would run real jobs, and `advance` would make everything due.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.app import Penstock
from penstock.client import Client
from penstock.config import Database
from penstock.embedded import Server
from penstock.testing.errors import NotForTests

_grounds: set[str | Path] = set()


def for_tests(app: Penstock) -> None:
    """Say that the database of an app is there for tests, which may do anything to its jobs.

        for_tests(app)
        await drain(app)

    Databases of the pytest plugin and of `led_to` are so anyway.
    """
    _grounds.add(_place(app.database))


def add_ground(url: str) -> None:
    """Have a database that was made for tests, or named for one."""
    _grounds.add(url)


def expect_ground(app: Client, verb: str) -> None:
    """Raise unless the app is on a database for tests."""
    if not isinstance(app, Penstock):
        raise TypeError(
            f"{verb} is about the whole queue, so it takes your app itself, not {app!r}."
        )
    if _place(app.database) not in _grounds:
        raise NotForTests(
            f"{verb} does as it likes with every job in the database, and nothing says that this "
            "app's is there for tests. Ask for the fixture penstock_app, or lead the app to a "
            "test's database with penstock.testing.led_to(app, penstock_url). If this database "
            "is indeed for tests, say so with penstock.testing.for_tests(app)."
        )


@asynccontextmanager
async def left_as_it_was(app: Penstock) -> AsyncIterator[None]:
    """Close the app afterwards unless it was open before.

    Nobody else would: a database cannot be dropped while the app is connected to it.
    """
    loop = app._link.loop
    was_open = loop is not None and not loop.is_closed()
    try:
        yield
    finally:
        if not was_open:
            await app.close()


def _place(database: Database) -> str | Path:
    return database.url or Server(database.data_dir).data_dir
