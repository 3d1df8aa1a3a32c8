"""Before and after as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from benchmarks.before_after.scenes import SCENES
from benchmarks.before_after.verdict import Verdict

COLOURS = {Verdict.no_slower: "green", Verdict.unclear: "yellow", Verdict.slower: "red"}


def tables(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A table a scene, with what it says, then what all of them say."""
    for name, scene in document["scenes"].items():
        yield table(document, name)
        yield _coloured(f"{name}: {scene['verdict']}", scene["verdict"])
        yield from (f"  {reason}" for reason in _named(name, scene["reasons"]))
        yield ""
    yield _coloured(sentence(document), document["verdict"])


def table(document: Mapping[str, Any], name: str) -> Table:
    """One row a measurement: the medians, the ratio and its interval, and that of equals."""
    scene, about = document["scenes"][name], SCENES[name]
    made = Table(title=f"{name}: {scene['jobs']:,} {about.unit}, rounds: {document['rounds']}")
    before, now = document["before"], document["now"]
    for title in ("", f"before ({before})", f"now ({now})", "now ÷ before", "before ÷ itself"):
        made.add_column(title, justify="right" if title else "left", no_wrap=True)
    for key, title, digits in about.rows:
        if (row := scene["rows"].get(key)) is not None:
            medians = (f"{row[when]['median']:,.{digits}f}" for when in ("before", "now"))
            made.add_row(title, *medians, _ratio(row["ratio"]), _ratio(row.get("spread")))
    return made


def sentence(document: Mapping[str, Any]) -> str:
    """What the run says, in a sentence."""
    now, before, verdict = document["now"], document["before"], document["verdict"]
    scenes = document["scenes"].items()
    names = ", ".join(name for name, scene in scenes if scene["verdict"] == verdict)
    return {
        Verdict.no_slower: f"{now} is no slower than {before}: {names}.",
        Verdict.slower: f"{now} is SLOWER than {before}: {names}.",
        Verdict.unclear: f"This run cannot tell, as {before} differs from itself: {names}.",
    }[verdict]


def _named(scene: str, reasons: list[str]) -> Iterator[str]:
    """With the titles of the table instead of the names of the document."""
    titles = {key: title for key, title, _ in SCENES[scene].rows}
    for reason in reasons:
        key, colon, rest = reason.partition(":")
        yield f"{titles.get(key, key)}{colon}{rest}"


def _ratio(ratio: Mapping[str, float] | None) -> str:
    return f"{ratio['median']:.3f} ({ratio['low']:.2f}–{ratio['high']:.2f})" if ratio else ""


def _coloured(text: str, verdict: Verdict) -> str:
    return f"[bold {COLOURS[verdict]}]{text}[/]"
