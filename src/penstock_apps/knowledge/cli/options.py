"""The options that the commands of knowledge share."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import typer

from penstock.cli.errors import ExtraMissing

# As in settings.py, which would bring the database's driver with it.
ALONE = "default"

Tenant = Annotated[str, typer.Option(metavar="T", help="Whose knowledge it is.")]
BaseName = Annotated[str, typer.Option("--base", metavar="NAME", help="The knowledge base.")]


@dataclass(frozen=True)
class Effort:
    """Who does the work, and whether it is waited for."""

    work: Annotated[
        bool,
        typer.Option(
            "--work/--no-work", help="Do the work here, or leave it to workers that run elsewhere."
        ),
    ] = True
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Wait until all is in; --no-wait implies --no-work."),
    ] = True
    children: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="How many files are read at once; two for each processor if nobody says.",
            show_default=False,
        ),
    ] = None

    @property
    def works(self) -> bool:
        return self.work and self.wait


def expect_knowledge() -> None:
    """Say what to install, if the packages of this extra are not there."""
    for package in ("numpy", "obstore", "wordllama"):
        if find_spec(package) is None:
            raise ExtraMissing("knowledge", package)
