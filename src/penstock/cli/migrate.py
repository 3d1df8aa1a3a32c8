"""`penstock migrate`: the tables in the database, made and brought up to date."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.commands import CommandError

if TYPE_CHECKING:
    from penstock.config import Database
    from penstock.migrate import MigrationStatus

PENDING = 3

ShowStatus = Annotated[
    bool, typer.Option("--status", help="List the migrations; the exit code is 3 if one is due.")
]
ShowSql = Annotated[
    bool,
    typer.Option(
        "--sql",
        help="Print the SQL instead of applying it: what is due in the database that is named, "
        "or all of it if none is.",
    ),
]
To = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Go to migration N, which may be back. 0 removes everything.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Go back without asking.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        help="The address of a Postgres; PENSTOCK_DATABASE_URL, else the embedded one.",
        show_default=False,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="The folder of the embedded Postgres; PENSTOCK_DATA_DIR, else .penstock.",
        show_default=False,
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        help="The schema for the tables; PENSTOCK_SCHEMA, else penstock.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def migrate(
    show_status: ShowStatus = False,
    show_sql: ShowSql = False,
    to: To = None,
    yes: Yes = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """Make the tables in the database, or bring them up to date.

    All that is due is applied in one transaction; any number of processes may do so at once.

    \b
    penstock migrate                                the embedded Postgres
    penstock migrate --database-url postgresql://…  one of your own
    penstock migrate --status
    penstock migrate --sql > penstock.sql           to apply it by other means
    penstock migrate --to 0                         remove everything, jobs included
    """
    if show_status and (show_sql or to is not None):
        raise typer.BadParameter("--status goes with neither --sql nor --to")
    if show_sql and as_json:
        raise typer.BadParameter("--sql prints SQL, not JSON")

    from penstock.config import Database

    folder = None if data_dir is None else str(data_dir)
    database = Database.of(database_url, data_dir=folder, schema=schema)
    if show_sql:
        typer.echo(_sql(database, to), nl=False)
    elif show_status:
        _print_status(database, as_json)
    else:
        _apply(database, to, yes, as_json)


def _sql(database: Database, to: int | None) -> str:
    from penstock.migrate import sql_text, status

    if database.url is None:
        return sql_text(database.schema, to=to)
    with _reached(database) as url:
        found = asyncio.run(status(url, schema=database.schema))
    applied = [each.number for each in found if each.applied_at]
    return sql_text(database.schema, applied=applied, to=to)


def _print_status(database: Database, as_json: bool) -> None:
    from penstock.migrate import status

    with _reached(database) as url:
        found = asyncio.run(status(url, schema=database.schema))
    due = [each.name for each in found if each.applied_at is None]
    if as_json:
        document = {"schema": database.schema, "migrations": [_fields(each) for each in found]}
        typer.echo(json.dumps(document | {"due": due}))
    else:
        for each in found:
            typer.echo(f"{each.name}  {_described(each)}")
    raise typer.Exit(PENDING if due else 0)


def _apply(database: Database, to: int | None, yes: bool, as_json: bool) -> None:
    from penstock.migrate import migrate, status

    with _reached(database) as url:
        if to is not None and not yes:
            found = asyncio.run(status(url, schema=database.schema))
            _ask([each.name for each in found if each.applied_at and each.number > to], database)
        names = asyncio.run(migrate(url, schema=database.schema, to=to))
    if as_json:
        typer.echo(json.dumps({"schema": database.schema, "changed": names}))
    elif names:
        typer.echo(f"The schema {database.schema} was changed by {', '.join(names)}.")
    else:
        typer.echo(f"The schema {database.schema} is up to date.")


def _ask(undone: list[str], database: Database) -> None:
    if not undone:
        return
    typer.echo(
        f"This undoes {', '.join(undone)} in the schema {database.schema}. What those migrations "
        "made is dropped with all that is in it: jobs are lost, and cannot be brought back.",
        err=True,
    )
    typer.confirm("Go on?", abort=True, err=True)


@contextmanager
def _reached(database: Database) -> Iterator[str]:
    """The URL of the database, with its errors in plain words."""
    import asyncpg

    from penstock.embedded import Server

    try:
        if database.url is not None:
            yield database.url
        else:
            with Server(database.data_dir).hold() as url:
                yield url
    except asyncpg.InsufficientPrivilegeError as error:
        raise CommandError(
            f"The role may not make the tables: {error}. Either let it create schemas "
            "(GRANT CREATE ON DATABASE …), or make the schema for it "
            f"(CREATE SCHEMA {database.schema} AUTHORIZATION …)."
        ) from error
    except asyncpg.PostgresError as error:
        raise CommandError(f"The database refuses: {error}.") from error
    except (OSError, asyncpg.InterfaceError) as error:
        why = str(error) or "it did not answer in time"
        raise CommandError(
            f"The database cannot be reached: {why}. Is it running, and is the address right?"
        ) from error


def _described(migration: MigrationStatus) -> str:
    if migration.applied_at is None:
        return "due"
    unknown = "" if migration.known else ", by a newer version of Penstock"
    return f"applied {migration.applied_at:%Y-%m-%d %H:%M:%S} UTC{unknown}"


def _fields(migration: MigrationStatus) -> dict[str, Any]:
    at = migration.applied_at
    return asdict(migration) | {"applied_at": at and at.isoformat()}
