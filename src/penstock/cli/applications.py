"""The applications that come with Penstock, which it knows by name alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from penstock.app import Penstock


def add_commands(app: typer.Typer) -> None:
    """Give the command line the commands of all of them."""
    for entry in _entries("penstock.commands"):
        entry.load()(app)


def install(app: Penstock) -> list[str]:
    """Bring those into an app whose packages are installed; their names."""
    installed = []
    for entry in _entries("penstock.applications"):
        with suppress(ImportError):
            entry.load()(app)
            installed.append(entry.name)
    return installed


def _entries(group: str) -> Iterator[EntryPoint]:
    with suppress(PackageNotFoundError):
        yield from distribution("penstock").entry_points.select(group=group)
