"""`penstock doctor`: check the queue, its database and workers, and say what to do."""

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

from penstock.cli.database import find_app, require_embedded_server
from penstock.cli.framework import Exit, examples, expand_options
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output, terminal
from penstock.connect.connector import hold_embedded
from penstock.doctor import CHECKS, CheckLimits, Code, Finding, Report, Result, Verdict, examine
from penstock.wording import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.config import Database
    from penstock.doctor import Code
    from penstock.doctor.check import AnyCheck


STYLES = {
    Verdict.OK: "green",
    Verdict.SKIPPED: "bright_black",
    Verdict.WARNING: "yellow",
    Verdict.ERROR: "bold red",
}
VERDICT_WIDTH = 9
NAME_WIDTH = 20
INDENT = 2 + VERDICT_WIDTH + NAME_WIDTH
MAX_WIDTH = 110


@dataclass(frozen=True)
class CheckOptions:
    """The options that choose the checks to run."""

    only: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="Make this check alone; may be repeated."),
    ] = None
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="Leave this check out; may be repeated."),
    ] = None

    def checks(self) -> list[AnyCheck]:
        """Return the chosen checks in the order in which they run."""

        names = [check.name for check in CHECKS]
        chosen = [*(self.only or ()), *(self.skip or ())]
        if unknown := [name for name in chosen if name not in names]:
            raise typer.BadParameter(
                f"there is no check {unknown[0]}; the checks are {', '.join(names)}"
            )
        selected = set(self.only or names) - set(self.skip or ())
        return [check for check in CHECKS if check.name in selected]


@examples(
    "penstock doctor",
    "penstock doctor --app shop",
    "penstock doctor --strict --json",
    "penstock doctor --only partitions --only workers",
    "penstock doctor --list",
)
@expand_options
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
    choice: CheckOptions,
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
            parser=parse_duration,
            metavar="DURATION",
            help="The longest that one question may take the database.",
            show_default="5s",
        ),
    ] = 5.0,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Look for what is wrong with the queue, its database and its workers, and say what to do.

    It only reads, and never for long. The exit code is 0 if all is well, warnings allowed; 3 if
    there is an error, with --strict also a warning.
    """
    checks = choice.checks()
    if list_checks:
        _print_checks(checks, output)
        return
    code, database = (None, db.database()) if app is None else _load_code(app, db)
    report = _examine(database, checks, code, timeout)
    output.show(report.as_document(), lambda: _report_page(report, verbose))
    raise typer.Exit(Exit.OK if _is_well(report, strict) else Exit.NO)


def _examine(
    database: Database, checks: Sequence[AnyCheck], code: Code | None, timeout: float
) -> Report:
    limits = CheckLimits(reading=timeout)
    with _database_url(database) as url:
        return asyncio.run(
            examine(url, schema=database.schema, checks=checks, limits=limits, code=code)
        )


def _report_page(report: Report, verbose: bool) -> RenderableType:
    return report_page(report, terminal().width, verbose=verbose)


def _is_well(report: Report, strict: bool) -> bool:
    return report.verdict in ({Verdict.OK} if strict else {Verdict.OK, Verdict.WARNING})


def _print_checks(checks: Sequence[AnyCheck], output: Output) -> None:
    output.show(
        [{"check": check.name, "question": check.question} for check in checks],
        lambda: "\n".join(f"{check.name:<20}{check.question}" for check in checks),
    )


def _load_code(target: str, db: DatabaseOptions) -> tuple[Code, Database]:
    """Return the app's code, and the database that the options or else the app names."""
    app = find_app(target)
    db.apply_to(app)
    tasks = app._runnable_tasks()
    tasks.check()
    opened = frozenset(kind.__name__ for kind, _ in app.resources)
    return Code(target, tasks, opened), app.database


@contextmanager
def _database_url(database: Database) -> Iterator[str]:
    """Yield the URL of the database.

    Without a URL, keep the embedded server running within the block. Raises `NoDatabase` if there
    is no embedded server, because a check must not create one.
    """
    if database.url is not None:
        yield database.url
        return
    require_embedded_server(database)
    hold = hold_embedded(database)
    try:
        yield hold.url
    finally:
        hold.release()


def report_page(report: Report, width: int, *, verbose: bool) -> Group:
    """Return the report as text. SQL and commands to paste are never wrapped."""
    lines = _lines(report, min(width, MAX_WIDTH), verbose)
    # Rich wraps a Text even with no_wrap, unless it is in a Group.
    return Group(Text("\n", no_wrap=True, overflow="ignore").join(lines))


def _lines(report: Report, width: int, verbose: bool) -> Iterator[Text]:
    yield Text(f"{report.database}, schema {report.schema}", "bold")
    folded = [] if verbose else [result for result in report.results if _is_foldable(result)]
    shown = [result for result in report.results if result not in folded]
    for group, results in groupby(shown, key=lambda result: result.check.group):
        yield Text(f"\n{group}", "bold")
        for result in results:
            yield from _result_lines(result, width, verbose)
    yield Text()
    yield from _folded_lines(folded, width)
    yield Text(_summary(report), STYLES[report.verdict])


def _is_foldable(result: Result) -> bool:
    """Return whether a check was skipped and suggests no remedy."""
    return result.verdict is Verdict.SKIPPED and not any(
        finding.remedy for finding in result.findings
    )


def _folded_lines(results: Sequence[Result], width: int) -> Iterator[Text]:
    by_reason: dict[str, list[str]] = {}
    for result in results:
        by_reason.setdefault(result.findings[0].seen, []).append(result.check.name)
    for reason, names in by_reason.items():
        for line in wrap(f"Skipped: {', '.join(names)}. {reason}", width):
            yield Text(line, STYLES[Verdict.SKIPPED])


def _result_lines(result: Result, width: int, verbose: bool) -> Iterator[Text]:
    if verbose:
        duration = f"({result.seconds * 1000:.0f} ms)"
        yield Text(f"  {result.check.question} {duration}", STYLES[Verdict.SKIPPED])
    for finding in result.findings:
        yield from _finding_lines(result.check.name, finding, width, verbose)


def _finding_lines(name: str, finding: Finding, width: int, verbose: bool) -> Iterator[Text]:
    text_width = max(width - INDENT, 30)
    description = wrap(finding.seen, text_width) or [""]
    if finding.verdict is Verdict.OK and len(description) > 1 and not verbose:
        description = [f"{description[0][: text_width - 2]} …"]
    verdict = Text(f"  {finding.verdict:<{VERDICT_WIDTH}}", STYLES[finding.verdict])
    yield verdict.append(f"{name:<{NAME_WIDTH}}", "bold").append(description[0], "default")
    for line in description[1:]:
        yield Text(" " * INDENT + line)
    for line in wrap(finding.remedy, text_width):
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
