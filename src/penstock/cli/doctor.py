"""`penstock doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.commands import CommandError
from penstock.cli.duration import seconds

if TYPE_CHECKING:
    from penstock.config import Database
    from penstock.doctor import Code, Report
    from penstock.doctor.check import AnyCheck

SICK = 3

Only = Annotated[
    list[str] | None,
    typer.Option(metavar="CHECK", help="Make this check alone; may be repeated."),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(metavar="CHECK", help="Leave this check out; may be repeated."),
]
ListChecks = Annotated[bool, typer.Option("--list", help="List the checks and leave.")]
App = Annotated[
    str | None,
    typer.Option(
        metavar="APP",
        help="An app to compare the waiting jobs with: its tasks, their arguments and resources. "
        "Its database is examined, unless another is given.",
        show_default=False,
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings, too, make the exit code 3.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show what each check asked, and all it saw.")
]
Timeout = Annotated[
    float,
    typer.Option(
        parser=seconds,
        metavar="DURATION",
        help="The longest that one question may take the database.",
        show_default="5s",
    ),
]
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
        help="The schema with the queue's tables; PENSTOCK_SCHEMA, else penstock.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def doctor(
    app: App = None,
    only: Only = None,
    skip: Skip = None,
    list_checks: ListChecks = False,
    strict: Strict = False,
    verbose: Verbose = False,
    timeout: Timeout = 5.0,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    schema: Schema = None,
    as_json: AsJson = False,
) -> None:
    """Look for what is wrong with the queue, its database and its workers, and say what to do.

    It only reads, and never for long. The exit code is 0 if all is well, warnings allowed; 3 if
    there is an error, with --strict also a warning; 1 if it could not be tried, 2 for a command
    line that makes no sense.

    \b
    penstock doctor
    penstock doctor --app shop.jobs               can this code run what waits?
    penstock doctor --strict --json               for monitoring
    penstock doctor --only partitions --only workers
    """
    from penstock.config import Database

    chosen = _chosen(only or [], skip or [])
    if list_checks:
        _print_list(chosen, as_json)
        return
    folder = None if data_dir is None else str(data_dir)
    if app is None:
        code, database = None, Database.of(database_url, data_dir=folder, schema=schema)
    else:
        code, database = _code(app, database_url, folder, schema)
    report = _examined(database, chosen, code, timeout)
    if as_json:
        typer.echo(json.dumps(report.as_document()))
    else:
        _show(report, verbose)
    raise typer.Exit(0 if _is_well(report, strict) else SICK)


def _examined(
    database: Database, checks: Sequence[AnyCheck], code: Code | None, timeout: float
) -> Report:
    import asyncio

    from penstock.doctor import Limits, examine

    limits = Limits(reading=timeout)
    with _reached(database) as url:
        return asyncio.run(
            examine(url, schema=database.schema, checks=checks, limits=limits, code=code)
        )


def _show(report: Report, verbose: bool) -> None:
    from rich.console import Console

    from penstock.cli.findings import show

    show(report, Console(), verbose=verbose)


def _is_well(report: Report, strict: bool) -> bool:
    from penstock.doctor import Verdict

    return report.verdict in ({Verdict.OK} if strict else {Verdict.OK, Verdict.WARNING})


def _chosen(only: Sequence[str], skip: Sequence[str]) -> list[AnyCheck]:
    from penstock.doctor import CHECKS

    names = [check.name for check in CHECKS]
    if unknown := [name for name in (*only, *skip) if name not in names]:
        raise typer.BadParameter(f"there is no check {unknown[0]}; there are {', '.join(names)}")
    wanted = set(only or names) - set(skip)
    return [check for check in CHECKS if check.name in wanted]


def _print_list(checks: Sequence[AnyCheck], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([{"check": each.name, "question": each.question} for each in checks]))
        return
    for each in checks:
        typer.echo(f"{each.name:<20}{each.question}")


def _code(
    target: str, url: str | None, data_dir: str | None, schema: str | None
) -> tuple[Code, Database]:
    from penstock.cli.target import find_app
    from penstock.doctor import Code

    app = find_app(target)
    app.use_database(url, data_dir=data_dir, schema=schema)
    app.tasks.check()
    opened = frozenset(kind.__name__ for kind, _ in app.resources)
    return Code(target, app.tasks, opened), app.database


@contextmanager
def _reached(database: Database) -> Iterator[str]:
    """The address; an embedded server runs meanwhile, but none is made."""
    from penstock.embedded import Server

    if database.url is not None:
        yield database.url
        return
    server = Server(database.data_dir)
    if server.status().socket_dir is None:
        raise CommandError(
            f"There is no database to examine: none is named, and no embedded one is in "
            f"{server.data_dir}. Give --database-url or PENSTOCK_DATABASE_URL."
        )
    with server.hold() as url:
        yield url
