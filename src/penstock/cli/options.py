"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.errors import CommandError
from penstock.cli.output import say

if TYPE_CHECKING:
    from penstock.app.app import Penstock
    from penstock.config import Database


def _option(metavar: str, help: str, **more: Any) -> Any:
    # Not by Typer's envvar: the environment must not win over an app that names its own database.
    return typer.Option(
        metavar=metavar, help=help, show_default=False, rich_help_panel="Database", **more
    )


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The folder of an embedded Postgres."""

    data_dir: Annotated[
        Path | None,
        _option(
            "FOLDER",
            "The folder of an embedded Postgres; PENSTOCK_DATA_DIR, else .penstock.",
            readable=False,  # checked by the server, whose message names the remedy
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Server(Folder):
    """A Postgres: one's own by its address, or the embedded one."""

    database_url: Annotated[
        str | None,
        _option("URL", "The address of a Postgres; PENSTOCK_DATABASE_URL, else the embedded one."),
    ] = None

    def database(self, schema: str | None = None) -> Database:
        """Options over the environment over the defaults."""
        from penstock.config import Database

        folder = None if self.data_dir is None else str(self.data_dir)
        return Database.of(self.database_url, data_dir=folder, schema=schema)


@dataclass(frozen=True, kw_only=True)
class Where(Server):
    """A queue: a Postgres, and the schema with the tables."""

    schema: Annotated[
        str | None,
        _option("NAME", "The schema with the queue's tables; PENSTOCK_SCHEMA, else penstock."),
    ] = None

    def database(self, schema: str | None = None) -> Database:
        return super().database(schema or self.schema)

    def lead(self, app: Penstock) -> None:
        """Lead an app there that has a database of its own; what is not given stays."""
        app.use_database(self.database_url, data_dir=self.data_dir, schema=self.schema)

    def pass_on(self) -> None:
        """Let the same app lead there in child processes, unless its code names its database."""
        from penstock.config import DATA_DIR, DATABASE_URL, SCHEMA

        if self.data_dir is not None:
            os.environ.pop(DATABASE_URL, None)
        given = {DATABASE_URL: self.database_url, DATA_DIR: self.data_dir, SCHEMA: self.schema}
        os.environ.update({name: str(value) for name, value in given.items() if value is not None})


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def seconds(text: str | float) -> float:
    """The number of seconds that a text means."""
    try:
        number = float(text)
    except ValueError:
        number = _sum(str(text))
    if not 0 <= number <= 366 * 86_400:
        raise typer.BadParameter(f"{text} is no length of time of up to a year")
    return number


def _sum(text: str) -> float:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(
            f"{text!r} is no length of time; write 25s, 1h30m, 2d, 500ms or 25"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Timeout = Annotated[
    float | None,
    typer.Option(
        parser=seconds,
        metavar="DURATION",
        help="The longest to wait; then the exit code is 6.",
        show_default=False,
    ),
]


AS_WRITTEN = "write it like 2026-07-18T09:30:00Z; without a zone it is UTC"


def moment(text: str | datetime) -> datetime:
    """A point in time in ISO 8601."""
    if isinstance(text, datetime):
        return text
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no point in time; {AS_WRITTEN}") from None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def past(text: str | datetime) -> datetime:
    """A point in time, or how long ago it was."""
    if isinstance(text, datetime):
        return text
    for read in (_ago, moment):
        try:
            return read(text)
        except typer.BadParameter:
            continue
    raise typer.BadParameter(
        f"{text!r} is no point in time; write how long ago, like 2h or 7d, or {AS_WRITTEN}"
    )


def _ago(text: str) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=seconds(text))


Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="The jobs; or say which ones by filters."),
]


DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only say which jobs it would be, and change nothing.")
]


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before many are changed.")]


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
