"""A doctor's report for people: by group, what is wrong and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from rich.console import Group
from rich.text import Text

from penstock.doctor import Finding, Report, Result, Verdict
from penstock.wording import counted

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
