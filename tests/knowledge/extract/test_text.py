"""Markdown, text and code: as they are."""

from __future__ import annotations

import pytest

from penstock_apps.knowledge.extract.clean import clean_text
from tests.knowledge.extract.conftest import Read


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]
)
def test_text_is_read_in_the_encoding_it_was_written_in(read: Read, encoding: str) -> None:
    found = read("notes.txt", "Für 5 € – naïve café notes\n".encode(encoding))
    assert found.sections[0].text == "Für 5 € – naïve café notes"
    assert found.kind == "text"


def test_one_broken_byte_does_not_make_gibberish_of_the_rest(read: Read) -> None:
    content = "Прочитайте инструкцию насоса".encode() + b"\xff"
    assert read("notes.txt", content).sections[0].text.startswith("Прочитайте")


def test_nothing_is_kept_that_cannot_be_stored_or_seen() -> None:
    text = "a\x00b\u200bc\r\nd\xa0e\x0cf  \n\n\n\ng\u0065\u0301 \ud800"
    assert clean_text(text) == "abc\nd e\nf\n\ngé \ufffd"


def test_a_title_and_other_metadata_can_be_stored_and_shown(read: Read) -> None:
    head = (
        "<title>Pumps\x01 and\n\u202evalves\u2066</title><meta name=author content='A\x01\u202eB'>"
    )
    found = read("a.html", f"<html>{head}<p>text")
    assert (found.title, found.metadata) == ("Pumps and valves", {"author": "AB"})


def test_front_matter_of_markdown_is_metadata(read: Read) -> None:
    found = read("a.md", "---\ntitle: 'Pumps'\nAuthor: Ada\ntags:\n - a\n---\n# Other\n\nText.\n")
    assert found.title == "Pumps"
    assert found.metadata == {"author": "Ada"}
    assert found.sections[0].text == "# Other\n\nText."


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("```\n# no\n```\n\n# Yes #\n", "Yes"),
        ("Yes\n===\n\ntext", "Yes"),
        ("## Deep\n\ntext", None),
        ("---\n\ntext after a line\n\n---\n", None),
    ],
)
def test_the_title_of_markdown_is_its_first_heading(
    read: Read, text: str, title: str | None
) -> None:
    assert read("a.md", text).title == title


def test_comments_in_code_are_no_headings(read: Read) -> None:
    found = read("a.py", '# Not a heading\nprint("```")\n')
    assert found.kind == "code"
    assert found.sections[0].text == '```py\n# Not a heading\nprint("```")\n```'


def test_code_with_fences_has_longer_ones(read: Read) -> None:
    text = read("a.py", '"""\n```\nx\n```\n"""').sections[0].text
    assert text.startswith("````py\n")
    assert text.endswith("\n````")
