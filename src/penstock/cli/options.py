"""Options that several commands share, and how their values are parsed."""

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


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
TIME_FORMAT = "write it like 2026-07-18T09:30:00Z; without a zone it is UTC"
YES_ANSWERS = ("y", "yes")


def _database_option(metavar: str, help: str, **more: Any) -> Any:
    # Typer's envvar is not used: the environment must not override an app's own database.
    return typer.Option(
        metavar=metavar, help=help, show_default=False, rich_help_panel="Database", **more
    )


@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """The data directory of an embedded Postgres."""

    data_dir: Annotated[
        Path | None,
        _database_option(
            "FOLDER",
            "The folder of an embedded Postgres; PENSTOCK_DATA_DIR, else .penstock.",
            readable=False,  # The server checks it, with an error that says what to do.
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ServerOptions(FolderOptions):
    """A Postgres server: your own, by its URL, or the embedded one."""

    database_url: Annotated[
        str | None,
        _database_option(
            "URL", "The address of a Postgres; PENSTOCK_DATABASE_URL, else the embedded one."
        ),
    ] = None

    def database(self, schema: str | None = None) -> Database:
        """Return the database from the options, else from the environment, else the default."""
        from penstock.config import Database

        folder = None if self.data_dir is None else str(self.data_dir)
        return Database.of(self.database_url, data_dir=folder, schema=schema)


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions(ServerOptions):
    """A database and the schema that holds the queue's tables."""

    schema: Annotated[
        str | None,
        _database_option(
            "NAME", "The schema with the queue's tables; PENSTOCK_SCHEMA, else penstock."
        ),
    ] = None

    def database(self, schema: str | None = None) -> Database:
        return super().database(schema or self.schema)

    def apply_to(self, app: Penstock) -> None:
        """Set the database of an app. The app keeps its value of each option that is not given."""
        app.use_database(self.database_url, data_dir=self.data_dir, schema=self.schema)

    def export(self) -> None:
        """Set environment variables from the options, for apps in child processes.

        An app whose code names its database ignores these variables.
        """
        from penstock.config import DATA_DIR, DATABASE_URL, SCHEMA

        if self.data_dir is not None:
            os.environ.pop(DATABASE_URL, None)
        values = {DATABASE_URL: self.database_url, DATA_DIR: self.data_dir, SCHEMA: self.schema}
        os.environ.update({name: str(value) for name, value in values.items() if value is not None})


def parse_duration(text: str | float) -> float:
    """Return the seconds that a duration means: `25s`, `1h30m`, `2d`, `500ms`, or plain seconds."""
    try:
        number = float(text)
    except ValueError:
        number = _sum_of_parts(str(text))
    if not 0 <= number <= 366 * 86_400:
        raise typer.BadParameter(f"{text} is not a duration of up to a year")
    return number


def _sum_of_parts(text: str) -> float:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{text!r} is not a duration; write 25s, 1h30m, 2d, 500ms or 25")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


Timeout = Annotated[
    float | None,
    typer.Option(
        parser=parse_duration,
        metavar="DURATION",
        help="The longest to wait; then the exit code is 6.",
        show_default=False,
    ),
]


def parse_time(text: str | datetime) -> datetime:
    """Parse a time in ISO 8601. Without a zone it is UTC."""
    if isinstance(text, datetime):
        return text
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time; {TIME_FORMAT}") from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def parse_past_time(text: str | datetime) -> datetime:
    """Parse a time in ISO 8601, or how long ago it was, such as `2h`."""
    if isinstance(text, datetime):
        return text
    for parse in (_parse_age, parse_time):
        try:
            return parse(text)
        except typer.BadParameter:
            continue
    raise typer.BadParameter(
        f"{text!r} is not a time; write how long ago, like 2h or 7d, or {TIME_FORMAT}"
    )


def _parse_age(text: str) -> datetime:
    return datetime.now(UTC) - timedelta(seconds=parse_duration(text))


Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="The jobs; or say which ones by filters."),
]

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only say which jobs it would be, and change nothing.")
]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before many are changed.")]


def confirm(consequence: str) -> None:
    """Print what will happen, and raise `CommandError` unless the user answers yes.

    Do not call it inside an event loop: Ctrl-C would not end the question there.
    """
    say(consequence)
    # typer.confirm would write a space to stdout, which is for the command's answer.
    typer.echo("Go on? [y/N]: ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        raise CommandError(
            "\nThere was no answer, so nothing was changed. Use --yes to confirm in advance."
        )
    if answer.strip().lower() not in YES_ANSWERS:
        raise CommandError("Nothing was changed.")
