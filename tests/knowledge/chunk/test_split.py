"""What pieces are like."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json

from penstock import ConfigError
from penstock_apps.knowledge.chunk import Chunking, split
from penstock_apps.knowledge.text import Extracted, Piece, Section
from penstock_apps.knowledge.tokens import tokens

LONG = "The pump of this plant is driven by water alone, as it was a hundred years ago. " * 9


def pieces(*texts: str, kind: str = "markdown", size: int = 256) -> list[Piece]:
    sections = tuple(Section(text, page) for page, text in enumerate(texts, 1))
    return split(Extracted(sections, kind), Chunking(size))


def headings(*texts: str) -> list[str]:
    return [piece.heading for piece in pieces(*texts)]


def test_a_short_text_is_one_piece() -> None:
    (piece,) = pieces("Water flows.")
    assert piece == Piece("Water flows.", tokens().count("Water flows."), "", 1)


def test_a_document_without_text_has_no_pieces() -> None:
    assert pieces() == pieces("") == pieces(" \n\n\t\n", "\n") == []


def test_large_section_begins_a_piece_under_its_heading() -> None:
    text = f"# Install\n\n{LONG}\n\n## Linux\n\n{LONG}\n\n# Use\n\n{LONG}"
    assert headings(text) == ["Install", "Install › Linux", "Use"]
    assert all("#" not in piece.text for piece in pieces(text))


def test_small_sections_share_a_piece_and_keep_their_headings() -> None:
    (piece,) = pieces("# Words\n\n## Penstock\n\nA pipe.\n\n## Weir\n\nA low dam.")
    assert piece.heading == "Words"
    assert piece.text == "## Penstock\n\nA pipe.\n\n## Weir\n\nA low dam."


def test_headings_without_text_are_not_lost() -> None:
    (piece,) = pieces("# One\n\n# Two\n\nText.\n\n## Three")
    assert piece.embedded == "# One\n\n# Two\n\nText.\n\n## Three"
    (alone,) = pieces("# Only")
    assert alone.embedded == "Only"


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("Title\n=====\n\nText.", "Title"),
        ("Title\n-----\nText.", "Title"),
        ("=====\nTitle\n=====\n\nText.", "Title"),
        ("# **Bold** and [linked](http://x.org)[¶](#here) ##\n\nText.", "Bold and linked"),
        ("# snake\\_case\n\nText.", "snake_case"),
        ("# 13.2.1. Read Committed\n\nText.", "Read Committed"),
        ("# Chapter 7: Indexes\n\nText.", "Indexes"),
        ("# E.5. Release 15.18\n\nText.", "Release 15.18"),
        ("# 15.18 for Debian\n\nText.", "15.18 for Debian"),
        ("# 3 ways to the mill\n\nText.", "3 ways to the mill"),
        (f"# {'long ' * 20}\n\nText.", f"{'long ' * 15}long…"),
        ("```sh\n# a comment\n```\n\nText.", ""),
        ("#hashtag\n\nText.", ""),
        ("| a |\n|---|\n| b |", ""),
    ],
)
def test_headings_are_known(text: str, heading: str) -> None:
    assert headings(text) == [heading]


def test_an_outline_is_followed_also_where_levels_are_left_out() -> None:
    text = f"# A\n\n{LONG}\n\n### B\n\n{LONG}\n\n## C\n\n{LONG}\n\n# D\n\n{LONG}"
    assert headings(text) == ["A", "A › B", "A › C", "D"]


def test_a_piece_names_the_page_that_it_begins_on() -> None:
    found = pieces(LONG, LONG, LONG, kind="pptx")
    assert [piece.page for piece in found] == [1, 2, 3]


def test_a_heading_stands_with_what_follows_it() -> None:
    for size in (64, 128, 256):
        text = "\n\n".join(f"## Section {n}\n\n{LONG}" for n in range(20))
        for piece in pieces(text, size=size):
            assert not re.search(r"## Section \d+$", piece.text)


def test_a_paragraph_is_cut_only_between_sentences() -> None:
    for piece in pieces(LONG * 10):
        assert piece.text.startswith("The pump")
        assert piece.text.endswith("ago.")


def test_code_is_cut_only_between_lines() -> None:
    code = "\n".join(f"    answer_{n} = compute({n}, depth={n % 7})" for n in range(300))
    for piece in pieces(f"```python\n{code}\n```"):
        for line in piece.text.splitlines():
            assert re.fullmatch(r"```python|```|\s*answer_\d+ = compute\(\d+, depth=\d\)", line)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 20_000,
        "QmFzZTY0" * 3000,
        "word " * 5000,
        "水管" * 4000,
        "👍🏽" * 3000,
        "\n".join("|".join(str(n) for n in range(900)) for _ in range(5)),
        "```\n" + "y" * 9000,
        "# " + "t" * 9000,
    ],
    ids=["one word", "base64", "words", "Chinese", "emoji", "wide table", "open fence", "heading"],
)
@pytest.mark.parametrize("size", [32, 256])
def test_what_has_no_boundaries_is_cut_at_the_limit(text: str, size: int) -> None:
    for piece in pieces(text, size=size):
        assert tokens().count(piece.text) <= size


MARKDOWN = st.lists(
    st.one_of(
        st.sampled_from(
            ["# A", "## B", "###### C", "```", "~~~", "| a | b |", "- item", "====", ""]
        ),
        st.text(max_size=300),
        st.text("ab. \n#`|-=", max_size=200),
    ),
    max_size=40,
).map("\n".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(MARKDOWN, max_size=3), st.sampled_from(["pdf", "markdown"]))
def test_no_piece_is_empty_or_too_large_and_no_text_is_lost(texts: list[str], kind: str) -> None:
    found = pieces(*texts, kind=kind, size=32)
    for piece in found:
        assert piece.text.strip()
        assert piece.tokens == tokens().count(piece.embedded)
        assert tokens().count(piece.text) <= 32
    said = "".join(piece.embedded for piece in found)
    for letter in set("".join(texts)):
        if letter.isalnum():
            assert letter in said


def test_settings_are_stored_as_json() -> None:
    stored = json.encode(Chunking(128))
    assert json.decode(stored, type=Chunking) == Chunking(128)


@pytest.mark.parametrize("size", [0, 100_000])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match=r"chunking\.size"):
        Chunking(size)


def test_rules_that_are_not_known_here_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"chunking\.version"):
        Chunking(version=99)
