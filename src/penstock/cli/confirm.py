"""A question before what cannot be undone."""

from __future__ import annotations

import sys

import typer

from penstock.cli.errors import CommandError
from penstock.cli.output import say

YES = ("y", "yes")


def confirm(consequence: str) -> None:
    """Say what would happen, and go on only after a yes.

    Not inside an event loop: Ctrl-C would not end the question there.
    """
    say(consequence)
    # Not typer.confirm: it writes a space to stdout, where only the answer belongs.
    typer.echo("Go on? [y/N]: ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        raise CommandError("\nNobody answers. Nothing was changed; --yes answers in advance.")
    if answer.strip().lower() not in YES:
        raise CommandError("Nothing was changed.")
