"""The applications that come with Penstock. Their entry points say where to import them from."""

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
    """Add the commands of all applications to the commands of the root, by name."""
    for entry in _entries("penstock.commands"):
        entry.load()(commands)


def install(app: Penstock) -> list[str]:
    """Add to the app each application whose packages can be imported, and return their names."""
    installed = []
    for entry in _entries("penstock.applications"):
        with suppress(ImportError):
            entry.load()(app)
            installed.append(entry.name)
    return installed


async def migrate(database: Database, requested: Collection[str]) -> list[str]:
    """Migrate each requested application, and each one whose tables already exist.

    Return the names of the applied migrations. Raises `CommandError` if a requested application is
    not installed.
    """
    from penstock.app.app import Penstock

    names: list[str] = []
    app = Penstock(database.url, schema=database.schema)
    installed = install(app)
    if missing := sorted(set(requested) - set(installed)):
        names_here = ", ".join(installed) or "none"
        raise CommandError(
            f"The application {missing[0]!r} is not installed. Installed applications: "
            f"{names_here}."
        )
    for application in app.applications:
        if application.name in requested or await application.is_there(database):
            names += await application.migrate(database)
    return names


async def find_renamed(database: Database) -> dict[str, str]:
    """Return schemas whose functions still refer to a former name of the schema, with that name."""
    from penstock.app.app import Penstock

    app = Penstock(database.url, schema=database.schema)
    install(app)
    former_names: dict[str, str] = {}
    for application in app.applications:
        former_names |= await application.renamed(database)
    return former_names


def _entries(group: str) -> Iterator[EntryPoint]:
    # Importing it takes longer than a short command runs, and few commands need it.
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(PackageNotFoundError):
        yield from distribution("penstock").entry_points.select(group=group)
