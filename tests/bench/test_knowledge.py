"""The measurement of documents that come in: its edits, its table and its place on the page."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.knowledge import edits
from benchmarks.knowledge.corpora import CannotHave, copied, spread
from benchmarks.knowledge.table import facts, rows
from benchmarks.page import knowledge
from benchmarks.page.results import read

PARAGRAPHS = "".join(f"<p>{'word ' * 20}of paragraph {number}.</p>\n" for number in range(9))
PAGE = f"<html><body><h1>Manual</h1>{PARAGRAPHS}</body></html>"


@pytest.fixture
def run() -> dict[str, Any]:
    return read("knowledge")


def test_the_edits_of_a_seed_are_always_the_same(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "page.html").write_text(PAGE)
        assert edits.edit(folder, share=1.0) == 1
    assert (one / "page.html").read_text() == (other / "page.html").read_text() != PAGE


def test_files_are_taken_from_all_over_a_corpus(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.txt").touch()
    found = spread(tmp_path.rglob("*.txt"), 5)
    assert [file.stem for file in found] == ["0", "2", "4", "6", "8"]
    assert len(list(copied(found, tmp_path, tmp_path / "copy").iterdir())) == 5
    with pytest.raises(CannotHave):
        spread(tmp_path.rglob("*.pdf"), 5)


def test_the_page_shows_the_last_run(run: dict[str, Any]) -> None:
    shown = knowledge.documents(run)
    for row in (*rows(run), *facts(run)):
        assert f"| {' | '.join(row)} |" in shown


def test_without_cocoindex_the_page_says_why(run: dict[str, Any]) -> None:
    alone = run | {"cocoindex": {"left_out": "it could not be installed: no network"}}
    assert "CocoIndex is left out: it could not be installed" in knowledge.documents(alone)
    assert all(row[2:] == ["", ""] for row in rows(alone))
