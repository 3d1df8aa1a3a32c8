"""`penstock doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.duration import seconds
from penstock.cli.exits import Exit
from penstock.cli.output import Output, terminal
from penstock.cli.spread import spread
from penstock.cli.where import Where

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.config import Database
    from penstock.doctor import Code, Report
    from penstock.doctor.check import AnyCheck


@dataclass(frozen=True)
class Choice:
    """Which checks to make."""

    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="Make this check alone; may be repeated."),
    ] = None
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="Leave this check out; may be repeated."),
    ] = None

    def checks(self) -> list[AnyCheck]:
        """The chosen ones, in the order in which they are made."""
        from penstock.doctor import CHECKS

        names = [check.name for check in CHECKS]
        given = [*(self.only or ()), *(self.skip or ())]
        if unknown := [name for name in given if name not in names]:
            raise typer.BadParameter(
                f"there is no check {unknown[0]}; there are {', '.join(names)}"
            )
        wanted = set(self.only or names) - set(self.skip or ())
        return [check for check in CHECKS if check.name in wanted]


@examples(
    "penstock doctor",
    "penstock doctor --app shop",
    "penstock doctor --strict --json",
    "penstock doctor --only partitions --only workers",
    "penstock doctor --list",
)
@spread
def doctor(
    *,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="APP",
            help="An app to compare the waiting jobs with: its tasks, their arguments and "
            "resources. Its database is examined, unless another is given.",
            show_default=False,
        ),
    ] = None,
    choice: Choice,
    list_checks: Annotated[bool, typer.Option("--list", help="List the checks and leave.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Warnings, too, make the exit code 3.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show what each check asked, and all it saw."),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            help="The longest that one question may take the database.",
            show_default="5s",
        ),
    ] = 5.0,
    where: Where,
    output: Output,
) -> None:
    """Look for what is wrong with the queue, its database and its workers, and say what to do.

    It only reads, and never for long. The exit code is 0 if all is well, warnings allowed; 3 if
    there is an error, with --strict also a warning.
    """
    checks = choice.checks()
    if list_checks:
        _print_list(checks, output)
        return
    code, database = (None, where.database()) if app is None else _code(app, where)
    report = _examined(database, checks, code, timeout)
    output.show(report.as_document(), lambda: _page(report, verbose))
    raise typer.Exit(Exit.OK if _is_well(report, strict) else Exit.NO)


def _examined(
    database: Database, checks: Sequence[AnyCheck], code: Code | None, timeout: float
) -> Report:
    from penstock.doctor import Limits, examine

    limits = Limits(reading=timeout)
    with _address(database) as url:
        return asyncio.run(
            examine(url, schema=database.schema, checks=checks, limits=limits, code=code)
        )


def _page(report: Report, verbose: bool) -> RenderableType:
    from penstock.cli.screens.findings import report_page

    return report_page(report, terminal().width, verbose=verbose)


def _is_well(report: Report, strict: bool) -> bool:
    from penstock.doctor import Verdict

    return report.verdict in ({Verdict.OK} if strict else {Verdict.OK, Verdict.WARNING})


def _print_list(checks: Sequence[AnyCheck], output: Output) -> None:
    output.show(
        [{"check": each.name, "question": each.question} for each in checks],
        lambda: "\n".join(f"{each.name:<20}{each.question}" for each in checks),
    )


def _code(target: str, where: Where) -> tuple[Code, Database]:
    """The app's code, and its database unless another is given."""
    from penstock.cli.target import find_app
    from penstock.doctor import Code

    app = find_app(target)
    where.lead(app)
    tasks = app._runnable_tasks()
    tasks.check()
    opened = frozenset(kind.__name__ for kind, _ in app.resources)
    return Code(target, tasks, opened), app.database


@contextmanager
def _address(database: Database) -> Iterator[str]:
    """Where the database is; an embedded one runs meanwhile, but none is made."""
    from penstock.cli.opening import expect_server
    from penstock.connect.connector import hold_embedded

    if database.url is not None:
        yield database.url
        return
    expect_server(database)
    hold = hold_embedded(database)
    try:
        yield hold.url
    finally:
        hold.release()
