"""Files that are refused, and those that would take their reader down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock_apps.knowledge.errors import Skipped, Unreadable
from penstock_apps.knowledge.extract import ReadLimits
from penstock_apps.knowledge.extract.extract import run_reader
from penstock_apps.knowledge.extract.office import too_many_slides_error
from penstock_apps.knowledge.text import Extracted
from tests.knowledge.extract.conftest import Read


def test_an_empty_file_is_said_to_be_empty(read: Read) -> None:
    with pytest.raises(
        Skipped, match=r"^The file is empty\. There is nothing in it to read\.$"
    ) as refused:
        read("a.docx", b"")
    assert refused.value.reason == "empty"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.json", "a.html", "a.eml", "a", "a.pdf"])
@pytest.mark.parametrize("text", [" \n\t\r\n", "\u3000" * 70_000, ""])
def test_a_file_of_white_space_is_skipped_as_an_empty_one(
    read: Read, name: str, encoding: str, text: str
) -> None:
    with pytest.raises(Skipped, match=r"is empty|nothing but white space") as refused:
        read(name, text.encode(encoding))
    assert refused.value.reason == "empty"


def test_empty_page_has_no_text_and_is_not_called_a_scan(read: Read) -> None:
    with pytest.raises(Unreadable, match="If it should hold some, save it anew") as refused:
        read("a.html", "<p></p>")
    assert refused.value.reason == "no_text"
    assert "scan" not in str(refused.value)


@pytest.mark.parametrize("limit", ["bytes", "characters"])
def test_a_file_too_large_is_refused_with_a_remedy(read: Read, limit: str) -> None:
    with pytest.raises(Unreadable, match="smaller files") as refused:
        read("a.txt", "some words", **{limit: 9})
    assert refused.value.reason == "too_large"


def test_large_numbers_are_written_as_people_read_them(read: Read) -> None:
    with pytest.raises(Unreadable, match="more than 1,200 characters of text"):
        read("a.txt", "word " * 300, characters=1200)
    assert "at most 10,000 are read" in str(too_many_slides_error(12_000, ReadLimits()))
    assert "has 12,000 slides" in str(too_many_slides_error(12_000, ReadLimits()))


def test_a_limit_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ReadLimits.pages is -1; it must be 0 or more"):
        ReadLimits(pages=-1)


@pytest.mark.parametrize("stumble", [ValueError, KeyError, RecursionError, SystemError])
def test_whatever_a_parser_stumbles_over_is_a_broken_file(stumble: type[Exception]) -> None:
    def read(path: Path, name: str, limits: ReadLimits) -> Extracted:
        raise stumble("the secret text of the document")

    with pytest.raises(Unreadable, match=r"damaged.*save it anew") as refused:
        run_reader(read, Path("a"), "a", ReadLimits())
    assert refused.value.reason == "broken"
    assert "secret" not in str(refused.value)
    assert "Error" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_lack_of_memory_is_no_fault_of_the_file() -> None:
    def read(path: Path, name: str, limits: ReadLimits) -> Extracted:
        raise MemoryError

    with pytest.raises(MemoryError):
        run_reader(read, Path("a"), "a", ReadLimits())


def test_to_import_it_loads_no_format_and_starts_no_thread() -> None:
    code = """
import sys, threading
import penstock_apps.knowledge.extract
heavy = {"pypdfium2", "selectolax", "html_to_markdown", "xml.parsers.expat", "email.parser"}
print(sorted(heavy & set(sys.modules)), threading.active_count())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] 1\n"
