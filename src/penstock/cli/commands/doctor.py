"""`penstock doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.text import Text

from penstock.cli.database import expect_server, find_app
from penstock.cli.framework import Exit, examples, spread
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output, terminal
from penstock.connect.connector import hold_embedded
from penstock.doctor import CHECKS, Code, Finding, Limits, Report, Result, Verdict, examine
from penstock.wording import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.config import Database
    from penstock.doctor import Code
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

    limits = Limits(reading=timeout)
    with _address(database) as url:
        return asyncio.run(
            examine(url, schema=database.schema, checks=checks, limits=limits, code=code)
        )


def _page(report: Report, verbose: bool) -> RenderableType:

    return report_page(report, terminal().width, verbose=verbose)


def _is_well(report: Report, strict: bool) -> bool:

    return report.verdict in ({Verdict.OK} if strict else {Verdict.OK, Verdict.WARNING})


def _print_list(checks: Sequence[AnyCheck], output: Output) -> None:
    output.show(
        [{"check": each.name, "question": each.question} for each in checks],
        lambda: "\n".join(f"{each.name:<20}{each.question}" for each in checks),
    )


def _code(target: str, where: Where) -> tuple[Code, Database]:
    """The app's code, and its database unless another is given."""
    app = find_app(target)
    where.lead(app)
    tasks = app._runnable_tasks()
    tasks.check()
    opened = frozenset(kind.__name__ for kind, _ in app.resources)
    return Code(target, tasks, opened), app.database


@contextmanager
def _address(database: Database) -> Iterator[str]:
    """Where the database is; an embedded one runs meanwhile, but none is made."""
    if database.url is not None:
        yield database.url
        return
    expect_server(database)
    hold = hold_embedded(database)
    try:
        yield hold.url
    finally:
        hold.release()


STYLES = {
    Verdict.OK: "green",
    Verdict.SKIPPED: "bright_black",
    Verdict.WARNING: "yellow",
    Verdict.ERROR: "bold red",
}
VERDICT_WIDTH = 9
NAME_WIDTH = 20
INDENT = 2 + VERDICT_WIDTH + NAME_WIDTH
WIDEST = 110


def report_page(report: Report, width: int, *, verbose: bool) -> Group:
    """A report to read. What is to be pasted is never wrapped."""
    lines = _lines(report, min(width, WIDEST), verbose)
    # In a group: of a text alone the console forgets that it is not to be wrapped.
    return Group(Text("\n", no_wrap=True, overflow="ignore").join(lines))


def _lines(report: Report, width: int, verbose: bool) -> Iterator[Text]:
    yield Text(f"{report.database}, schema {report.schema}", "bold")
    folded = [] if verbose else [result for result in report.results if _says_little(result)]
    shown = [result for result in report.results if result not in folded]
    for group, results in groupby(shown, key=lambda result: result.check.group):
        yield Text(f"\n{group}", "bold")
        for result in results:
            yield from _result_lines(result, width, verbose)
    yield Text()
    yield from _folded_lines(folded, width)
    yield Text(_summary(report), STYLES[report.verdict])


def _says_little(result: Result) -> bool:
    """Skipped, with nothing to do about it here."""
    return result.verdict is Verdict.SKIPPED and not any(each.remedy for each in result.findings)


def _folded_lines(results: Sequence[Result], width: int) -> Iterator[Text]:
    by_reason: dict[str, list[str]] = {}
    for result in results:
        by_reason.setdefault(result.findings[0].seen, []).append(result.check.name)
    for reason, names in by_reason.items():
        for line in wrap(f"Skipped: {', '.join(names)}. {reason}", width):
            yield Text(line, STYLES[Verdict.SKIPPED])


def _result_lines(result: Result, width: int, verbose: bool) -> Iterator[Text]:
    if verbose:
        taken = f"({result.seconds * 1000:.0f} ms)"
        yield Text(f"  {result.check.question} {taken}", STYLES[Verdict.SKIPPED])
    for finding in result.findings:
        yield from _finding_lines(result.check.name, finding, width, verbose)


def _finding_lines(name: str, finding: Finding, width: int, verbose: bool) -> Iterator[Text]:
    room = max(width - INDENT, 30)
    seen = wrap(finding.seen, room) or [""]
    if finding.verdict is Verdict.OK and len(seen) > 1 and not verbose:
        seen = [f"{seen[0][: room - 2]} …"]
    verdict = Text(f"  {finding.verdict:<{VERDICT_WIDTH}}", STYLES[finding.verdict])
    yield verdict.append(f"{name:<{NAME_WIDTH}}", "bold").append(seen[0], "default")
    for line in seen[1:]:
        yield Text(" " * INDENT + line)
    for line in wrap(finding.remedy, room):
        yield Text(" " * INDENT + line, "cyan")
    for text in finding.paste:
        for line in text.splitlines():
            yield Text("    " + line)


def _summary(report: Report) -> str:
    counts = report.counts
    parts = [
        counted(counts["error"], "error") if counts["error"] else "",
        counted(counts["warning"], "warning") if counts["warning"] else "",
        f"{counts['ok']} ok",
        f"{counts['skipped']} skipped" if counts["skipped"] else "",
    ]
    return ", ".join(filter(None, parts)) + "."
