"""An edit changes the pieces that it is in, and leaves all others as they are."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_apps.knowledge.chunk import Chunking, split
from penstock_apps.knowledge.text import Extracted, Section
from tests.knowledge.chunk.manual import edit, manual, paragraph


def hashes(blocks: list[str], size: int = 256) -> list[bytes]:
    text = "\n\n".join(blocks)
    return [piece.hash for piece in split(Extracted((Section(text),), "markdown"), Chunking(size))]


# The same manuals in every run: of all there are, some few would have a piece more.
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32), st.sampled_from([64, 128, 256]))
def test_an_edit_of_one_paragraph_changes_few_pieces(seed: int, size: int) -> None:
    random = Random(seed)
    before = manual(random, chapters=4)
    after = edit(random, before)
    old = hashes(before, size)
    # A paragraph has at most 8 × 22 words: with small pieces it is itself in several.
    assert len(set(hashes(after, size)) - set(old)) <= 5 + 256 // size


def test_fifty_edits_change_about_fifty_pieces() -> None:
    random = Random(8)
    blocks = manual(random, chapters=25)
    before = hashes(blocks)
    for _ in range(50):
        blocks = edit(random, blocks)
    after = hashes(blocks)
    assert len(before) > 150
    assert 30 <= len(set(after) - set(before)) <= 75


def test_a_paragraph_put_first_shifts_nothing() -> None:
    random = Random(3)
    paragraphs = [paragraph(random) for _ in range(200)]
    old = hashes(paragraphs)
    new = hashes([paragraph(random), *paragraphs])
    assert len(old) > 50
    assert len(set(new) - set(old)) <= 3


def test_word_inserted_in_a_huge_paragraph_changes_few_pieces() -> None:
    random = Random(4)
    text = " ".join(paragraph(random) for _ in range(200))
    words = text.split(" ")
    words.insert(len(words) // 2, "inserted")
    assert len(set(hashes([" ".join(words)])) - set(hashes([text]))) <= 3


def test_a_row_in_the_middle_of_a_large_table_changes_few_pieces() -> None:
    random = Random(5)
    rows = [f"| {number} | {paragraph(random)[:60]} |" for number in range(500)]
    more = [*rows[:250], "| new | a row |", *rows[250:]]
    assert len(set(hashes(["\n".join(more)])) - set(hashes(["\n".join(rows)]))) <= 3


def test_renumbering_chapters_changes_no_other_pieces() -> None:
    random = Random(7)
    chapters = [[f"Part {letter}", paragraph(random) * 2] for letter in "ABCDEFGH"]

    def book(chapters: list[list[str]]) -> list[str]:
        return [
            text
            for number, (title, body) in enumerate(chapters, 1)
            for text in (f"# {number}. {title}", body)
        ]

    new = book([["Foreword", paragraph(random) * 2], *chapters])
    assert len(set(hashes(new)) - set(hashes(book(chapters)))) <= 4


def test_a_pdf_whose_pages_break_elsewhere_keeps_most_pieces() -> None:
    random = Random(6)
    lines = [paragraph(random) for _ in range(120)]

    def pages(first: int) -> Extracted:
        starts = [0, *range(first, len(lines), 10)]
        ends = [*starts[1:], len(lines)]
        parts = zip(starts, ends, strict=True)
        texts = ("\n\n".join(lines[start:end]) for start, end in parts)
        return Extracted(tuple(Section(text, n) for n, text in enumerate(texts, 1)), "pdf")

    old, new = ({piece.hash for piece in split(pages(first), Chunking())} for first in (10, 7))
    assert len(new - old) / len(new) < 0.25
