"""The applications that come with Penstock, which it knows by name alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.cli.errors import CommandError
from penstock.cli.framework import LazyCommand

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from penstock.app.app import Penstock
    from penstock.config import Database


def add_commands(commands: dict[str, LazyCommand]) -> None:
    """Add those of all applications to the commands of the root, by their names."""
    for entry in _entries("penstock.commands"):
        entry.load()(commands)


def install(app: Penstock) -> list[str]:
    """Bring those into an app whose packages are installed; their names."""
    installed = []
    for entry in _entries("penstock.applications"):
        with suppress(ImportError):
            entry.load()(app)
            installed.append(entry.name)
    return installed


async def migrate(database: Database, wanted: Collection[str]) -> list[str]:
    """Bring the tables of those up to date that are wanted or there already; what was applied."""
    from penstock.app.app import Penstock

    names: list[str] = []
    app = Penstock(database.url, schema=database.schema)
    known = install(app)
    if missing := sorted(set(wanted) - set(known)):
        raise CommandError(
            f"There is no application {missing[0]!r} here; there are: {', '.join(known) or 'none'}."
        )
    for application in app.applications:
        if application.name in wanted or await application.is_there(database):
            names += await application.migrate(database)
    return names


async def renamed(database: Database) -> dict[str, str]:
    """Schemas of applications whose functions still look for a former name, and that name."""
    from penstock.app.app import Penstock

    app = Penstock(database.url, schema=database.schema)
    install(app)
    found: dict[str, str] = {}
    for application in app.applications:
        found |= await application.renamed(database)
    return found


def _entries(group: str) -> Iterator[EntryPoint]:
    # Its import takes longer than a short command, and few commands need it.
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(PackageNotFoundError):
        yield from distribution("penstock").entry_points.select(group=group)
