"""The commands of knowledge, for the command line to find."""

from __future__ import annotations

import typer

from penstock.cli.commands import Command
from penstock_apps.knowledge.cli import ingest, knowledge, search


def add_to(app: typer.Typer) -> None:
    """Give the command line its commands of knowledge."""
    app.command("ingest", cls=Command)(ingest.ingest)
    app.command("search", cls=Command)(search.search)
    app.add_typer(knowledge.app)
