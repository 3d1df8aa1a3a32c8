"""The options that the commands of knowledge share."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated

import typer

from penstock.cli.errors import ExtraMissing

# As in settings.py, which would bring the database's driver with it.
ALONE = "default"

Tenant = Annotated[str, typer.Option(metavar="T", help="Whose knowledge it is.")]
BaseName = Annotated[str, typer.Option("--base", metavar="NAME", help="The knowledge base.")]


def expect_knowledge() -> None:
    """Say what to install, if the packages of this extra are not there."""
    for package in ("numpy", "obstore", "wordllama"):
        if find_spec(package) is None:
            raise ExtraMissing("knowledge", package)
