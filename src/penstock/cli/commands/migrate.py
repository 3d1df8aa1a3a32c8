"""`penstock migrate`: create the tables, and keep them up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.errors import DatabaseRefused
from penstock.cli.framework import Exit, examples, expand_options
from penstock.cli.options import DatabaseOptions, confirm
from penstock.cli.output import Output, draw

if TYPE_CHECKING:
    from penstock.config import Database
    from penstock.migrate import MigrationStatus

ShowStatus = Annotated[
    bool,
    typer.Option(
        "--status", help="List the migrations; the exit code is 3 if one is due, or a rename."
    ),
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
Rls = Annotated[
    bool | None,
    typer.Option(
        "--rls/--no-rls",
        help="Switch row level security on or off: roles for workers and for apps, which see one "
        "tenant's jobs at a time. Without it, that stays as it is.",
        show_default=False,
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAME",
        help="Make the tables of an application too, such as knowledge; may be repeated. Those "
        "that are there are always brought up to date.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Go back without asking.")]


@examples(
    "penstock migrate",
    "penstock migrate --schema jobs",
    "penstock migrate --status --json",
    "penstock migrate --sql > penstock.sql",
    "penstock migrate --rls",
    "penstock migrate --with knowledge",
    "penstock migrate --to 0 --yes",
)
@expand_options
def migrate(
    *,
    show_status: ShowStatus = False,
    show_sql: ShowSql = False,
    to: To = None,
    rls: Rls = None,
    applications_to_add: With = None,
    yes: Yes = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Make the tables, or bring them up to date.

    All that is due is applied in one transaction; any number of processes may do so at once.
    """
    if show_status and (show_sql or to is not None or rls is not None):
        raise typer.BadParameter("--status cannot be used with --sql, --to or --rls")
    if show_sql and output.as_json:
        raise typer.BadParameter("--sql cannot be used with --json, since it prints SQL")

    database = db.database()
    if show_sql:
        draw(_sql(database, to, rls).rstrip("\n"))
    elif show_status:
        _print_status(database, output)
    else:
        _apply(database, to, rls, applications_to_add or [], yes, output)


def _sql(database: Database, to: int | None, rls: bool | None) -> str:
    from penstock.migrate import find_rename, has_rls, sql_text, status

    if database.url is None:
        return sql_text(database.schema, to=to, rls=rls)
    with _database_url(database) as url:
        migrations = asyncio.run(status(url, schema=database.schema))
        rls_is_on = asyncio.run(has_rls(url, schema=database.schema))
        _, renaming = asyncio.run(find_rename(url, schema=database.schema))
    applied = [migration.number for migration in migrations if migration.applied_at]
    return sql_text(
        database.schema, applied=applied, to=to, rls=rls, has_rls=rls_is_on, renaming=renaming
    )


def _print_status(database: Database, output: Output) -> None:
    from dataclasses import replace

    from penstock.cli import applications
    from penstock.migrate import find_rename, has_rls, status

    with _database_url(database) as url:
        migrations = asyncio.run(status(url, schema=database.schema))
        rls_is_on = asyncio.run(has_rls(url, schema=database.schema))
        former, _ = asyncio.run(find_rename(url, schema=database.schema))
        renamed = asyncio.run(applications.find_renamed(replace(database, url=url)))
    if former is not None:
        renamed = {database.schema: former} | renamed
    due = [migration.name for migration in migrations if migration.applied_at is None]
    document = {
        "schema": database.schema,
        "migrations": migrations,
        "due": due,
        "renamed": renamed,
        "rls": rls_is_on,
    }
    lines = [f"{migration.name}  {_describe(migration)}" for migration in migrations]
    lines += [f"{schema}  renamed from {former}, due" for schema, former in renamed.items()]
    if rls_is_on:
        lines.append("row level security  on")
    output.show(document, lambda: "\n".join(lines))
    raise typer.Exit(Exit.NO if due or renamed else Exit.OK)


def _apply(
    database: Database,
    to: int | None,
    rls: bool | None,
    applications_to_add: list[str],
    yes: bool,
    output: Output,
) -> None:
    from dataclasses import replace

    from penstock.cli import applications
    from penstock.migrate import has_rls, migrate, status

    with _database_url(database) as url:
        if to is not None and not yes:
            migrations = asyncio.run(status(url, schema=database.schema))
            _confirm_undo(
                [
                    migration.name
                    for migration in migrations
                    if migration.applied_at and migration.number > to
                ],
                database,
            )
        names = asyncio.run(migrate(url, schema=database.schema, to=to, rls=rls))
        if to is None:
            names += asyncio.run(
                applications.migrate(replace(database, url=url), applications_to_add)
            )
        rls_is_on = asyncio.run(has_rls(url, schema=database.schema))
    message = f"The schema {database.schema} is up to date."
    if names:
        message = f"The schema {database.schema} was changed by {', '.join(names)}."
    if rls is not None:
        message += f" Row level security is {'on' if rls_is_on else 'off'}."
    document = {"schema": database.schema, "changed": names, "rls": rls_is_on}
    output.show(document, lambda: message)


def _confirm_undo(undone: list[str], database: Database) -> None:
    if undone:
        confirm(
            f"This undoes {', '.join(undone)} in the schema {database.schema}. It drops "
            "everything that those migrations created, including the data: jobs are lost, and "
            "cannot be recovered."
        )


@contextmanager
def _database_url(database: Database) -> Iterator[str]:
    """Yield the URL of the database, and raise its errors as errors of commands.

    Without a URL, start the embedded server and keep it running within the block.
    """
    import asyncpg

    from penstock.cli.database import explain_database_errors
    from penstock.connect.connector import hold_embedded

    with explain_database_errors(database):
        try:
            if database.url is not None:
                yield database.url
            else:
                hold = hold_embedded(database)
                try:
                    yield hold.url
                finally:
                    hold.release()
        except asyncpg.InsufficientPrivilegeError as error:
            raise DatabaseRefused(
                f"The role may not create the tables: {error}. Either let it create schemas "
                "(GRANT CREATE ON DATABASE …), or create the schema for it "
                f"(CREATE SCHEMA {database.schema} AUTHORIZATION …)."
            ) from error


def _describe(migration: MigrationStatus) -> str:
    if migration.applied_at is None:
        return "due"
    unknown = "" if migration.known else ", by a newer version of Penstock"
    return f"applied {migration.applied_at:%Y-%m-%d %H:%M:%S} UTC{unknown}"
