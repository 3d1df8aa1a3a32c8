"""The options that the commands of knowledge share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import typer

from penstock.cli.errors import ExtraMissing

# The same as in settings.py, whose import would load the driver of the database.
DEFAULT_TENANT = "default"

# The same as over HTTP. Arguments that are not valid UTF-8 contain surrogates.
NAME = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,200}")


def name(text: str) -> str:
    """Check that a name can be stored and displayed."""
    if not NAME.fullmatch(text):
        raise typer.BadParameter(
            f"{text!r} is not a name; a name has 1 to 200 printable characters"
        )
    return text


Tenant = Annotated[str, typer.Option(parser=name, metavar="T", help="Whose knowledge it is.")]
BaseName = Annotated[
    str, typer.Option("--base", parser=name, metavar="NAME", help="The knowledge base.")
]


@dataclass(frozen=True)
class Effort:
    """The options for whether the command runs the jobs itself, and whether it waits for them."""

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
    def works_here(self) -> bool:
        return self.work and self.wait


def expect_knowledge() -> None:
    """Raise ExtraMissing, which names what to install, if a package of this extra is missing."""
    for package in ("numpy", "obstore", "wordllama"):
        if find_spec(package) is None:
            raise ExtraMissing("knowledge", package)


@dataclass(frozen=True)
class PageOptions:
    """The options of commands that list many rows."""

    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 100
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Those that are older than this one.", show_default=False),
    ] = None

    @property
    def start(self) -> int | None:
        if self.after is None:
            return None
        if not self.after.isdecimal() or len(self.after) > 18:
            raise typer.BadParameter(f"{self.after!r} is not an id", param_hint="--after")
        return int(self.after)
