"""Which database a command works on: the same options everywhere."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
