"""How every command ends: an error is one message, and Ctrl-C is no error."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from penstock.errors import PenstockError

INTERRUPTED = 130  # as shells have it: 128 + SIGINT


class CommandError(PenstockError):
    """A command cannot do what it was asked; the message says why."""


class Commands(TyperGroup):
    """The commands of `penstock`."""

    # Any: some versions of Typer carry a click of their own.
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except PenstockError as error:
            if ctx.params.get("traceback"):
                raise
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
