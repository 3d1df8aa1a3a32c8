"""A question before what cannot be undone."""

from __future__ import annotations

import typer

from penstock.cli.commands import CommandError
from penstock.cli.output import say


def confirm(consequence: str) -> None:
    """Say what would happen, and go on only after a yes."""
    say(consequence)
    if not typer.confirm("Go on?", err=True):
        raise CommandError("Nothing was changed.")
