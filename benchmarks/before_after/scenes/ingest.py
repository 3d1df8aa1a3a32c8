"""Documents that come in: the pages of this project, a section a file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from benchmarks.before_after.scenes.answering import answering
from benchmarks.comparison.drain import Drain
from benchmarks.comparison.environment import ROOT
from benchmarks.comparison.rounds import Lane
from penstock.bench.child import BenchFailed

COUNTS = ("chunks", "embedded", "embed_calls")
SECTION = re.compile(r"^(?=## )", re.MULTILINE)


async def ingested(lane: Lane) -> None:
    """As long as the command says it took; its processor time counts from its start."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as place:
        folder, storage = Path(place) / "files", Path(place) / "objects"
        files = write(folder, lane.entrant.facts.jobs)
        async with lane.fresh() as database:
            before = await lane.postgres.cpu_seconds()
            async with answering(lane, database, folder=str(folder), storage=str(storage)) as (
                child,
                answer,
            ):
                spent = await lane.postgres.spent_since(before)
                finished = await child.stop()
    for name in COUNTS:
        lane.results.counts.setdefault(name, []).append(answer[name])
    if answer["completed"] != files:
        raise BenchFailed(f"Of {files} files {answer['completed']} came in.")
    # Most memory is that of child processes.
    lane.note("documents", Drain(files, answer["seconds"], (), finished.cpu_seconds, spent, 0))


def write(folder: Path, files: int) -> int:
    """So many files, the same every time; how many."""
    folder.mkdir()
    for number, (name, text) in zip(range(files), _sections(), strict=False):
        (folder / f"{number:05}-{name}.md").write_text(text, "utf-8")
    return files


def _sections() -> Iterator[tuple[str, str]]:
    """All sections of all pages, then again, as those of the next edition."""
    pages = sorted((ROOT / "docs").glob("*.md"))
    for edition in count(1):
        for page in pages:
            for section in SECTION.split(page.read_text("utf-8")):
                yield page.stem, f"{section}\nEdition {edition}.\n"
