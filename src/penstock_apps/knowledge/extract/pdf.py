"""PDF, page by page, with its bookmarks as headings."""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pypdfium2
import pypdfium2.raw as pdfium

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import ocr
from penstock_apps.knowledge.extract.extract import too_much_text
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.text import Extracted, Section

# A string that PDFium hands out, without what is no character: half a surrogate pair.

TERMINATOR_BYTES = 2


def pdf_text(get: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str:
    """`get` is told where to write and how many bytes fit there, and tells how many it needs."""
    size = get(None, 0)
    buffer = ctypes.create_string_buffer(size)
    get(buffer, size)
    return buffer.raw[: max(0, size - TERMINATOR_BYTES)].decode("utf-16-le", "ignore")


# The bookmarks of a PDF, as headings of the lines they lead to.

# More of them is an index, and not of headings.
MAX_BOOKMARKS = 5_000
MAX_BOOKMARK_DEPTH = 6
# "2.1 Options", "Chapter 3: Names", "A.4 Tables", while the bookmark has only the words.
NUMBERED = re.compile(
    r"^(?:(?:chapter|part|appendix|section) )?(?:[0-9]+|[a-z]|[ivx]+)(?:\.[0-9]+)*[.:]? (?=\S)"
)

# Bookmarks have the plain ones, pages the fine ones.
SINGLE_QUOTES = re.compile("[`´‘’]")
DOUBLE_QUOTES = re.compile("[“”„]")

Heading = tuple[str, int]


def bookmark_headings(document: pypdfium2.PdfDocument) -> dict[int, list[Heading]]:
    """By page number: what is headed there, and how deep it stands."""
    found: dict[int, list[Heading]] = {}
    for count, bookmark in enumerate(document.get_toc(max_depth=MAX_BOOKMARK_DEPTH)):
        if count == MAX_BOOKMARKS:
            return {}
        target = bookmark.get_dest()
        page = target.get_index() if target else None
        if page is None:
            continue
        title = pdf_text(partial(pdfium.FPDFBookmark_GetTitle, bookmark))
        if words := comparable(title).replace("\n", " ").strip():
            found.setdefault(page + 1, []).append((words, bookmark.level + 1))
    return found


def with_headings(text: str, headings: Sequence[Heading]) -> str:
    """The text of a page whose headings are headings of Markdown."""
    if not headings:
        return text
    lines = text.split("\n")
    places = lines_by_words(comparable(text).split("\n"))
    start = 0
    for title, level in headings:
        at = line_of_heading(title, places, start)
        if at is not None:
            lines[at] = f"\n{'#' * level} {lines[at].strip()}\n"
            start = at + 1
    return "\n".join(lines)


def lines_by_words(lines: list[str]) -> dict[str, list[int]]:
    """Where each line stands, by its words; once, since a page may have many lines and headings."""
    places: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        for words in {line, NUMBERED.sub("", line)} - {""}:
            places.setdefault(words, []).append(at)
    return places


def line_of_heading(title: str, places: dict[str, list[int]], start: int) -> int | None:
    """The first line from `start` on with the words of a title, whatever their numbers are."""
    ats = [places.get(words, []) for words in (title, NUMBERED.sub("", title))]
    found = [some[at] for some in ats if (at := bisect_left(some, start)) < len(some)]
    return min(found, default=None)


def comparable(text: str) -> str:
    """Without what differs between a bookmark and the line it leads to."""
    text = DOUBLE_QUOTES.sub('"', SINGLE_QUOTES.sub("'", text)).casefold()
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


# PDF, page by page.

# PDFium's mark for a hyphen at the end of a line, which it has joined with the next.
HYPHEN = re.compile("(?<=[a-zß-ÿ])\ufffe(?=[a-zß-ÿ])")
# The dots of a table of contents: to an embedding they are words.
LEADER = re.compile(r" ?\.(?: ?\.){4,} ?")
# To Markdown it would be a heading.
HASH = re.compile(r"^(?=#{1,6} )", re.MULTILINE)
LIGATURE = re.compile("[\ufb00-\ufb06]")
LIGATURE_LETTERS = dict(
    zip(
        "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06",
        ["ff", "fi", "fl", "ffi", "ffl", "st", "st"],
        strict=True,
    )
)
# Alone on the last line.
PAGE_NUMBER = re.compile(r"[-–\s]*\d{1,4}[-–\s]*")
PDF_METADATA = ("Title", "Author", "Subject", "Keywords")
PROGRAM = re.compile(r"^Microsoft (?:Word|PowerPoint|Excel) - ")
# What programs write where nobody told them anything.
PLACEHOLDER_TITLES = ("untitled", "unspecified", "anonymous")
# A scan with a stamp or a page number on it is still a scan.
SCANNED_CHARACTERS = 20


def read(path: Path, name: str, limits: Limits) -> Extracted:
    with open_pdf(path) as document:
        pages = len(document)
        if pages > limits.pages:
            raise Unreadable(
                "too_many_pages",
                f"The PDF has {pages:,} pages; at most {limits.pages:,} are read. Split it.",
            )
        texts = [*page_texts(document, limits)]
        if sum(map(len, texts)) < SCANNED_CHARACTERS * pages and ocr.available():
            texts = [*ocr_pages(document, texts, limits)]
        said = document_info(document)
        headings = bookmark_headings(document)
    sections = tuple(
        Section(with_headings(text, headings.get(number, ())), page=number)
        for number, text in enumerate(texts, start=1)
    )
    title = PROGRAM.sub("", said.get("Title", "")).strip()
    metadata = {key.lower(): said[key] for key in PDF_METADATA[1:] if key in said}
    return Extracted(sections, kind="pdf", title=title, metadata=metadata | {"pages": str(pages)})


def document_info(document: pypdfium2.PdfDocument) -> dict[str, str]:
    said = {
        key: pdf_text(partial(pdfium.FPDF_GetMetaText, document, key.encode()))
        for key in PDF_METADATA
    }
    return {
        key: value
        for key, value in said.items()
        if value and value.strip().lower() not in PLACEHOLDER_TITLES
    }


def open_pdf(path: Path) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise Unreadable(
                "encrypted",
                "The PDF is locked with a password. Save it without one and send that.",
            ) from None
        raise


def page_texts(document: pypdfium2.PdfDocument, limits: Limits) -> list[str]:
    """The text of each page; '' for one that is broken, unless all are."""
    texts: list[str] = []
    characters = broken = 0
    for number in range(len(document)):
        text = page_text(document, number)
        broken += text is None
        texts.append(mended_text(text or ""))
        characters += len(texts[-1])
        if characters > limits.characters:
            raise too_much_text(limits)
    if broken == len(texts):
        raise Unreadable(
            "broken", "No page of the PDF can be read. Open it, save it anew and send that."
        )
    return texts


def page_text(document: pypdfium2.PdfDocument, number: int) -> str | None:
    """Straight from PDFium: an object and a finalizer for each page would cost a tenth more."""
    page = pdfium.FPDF_LoadPage(document, number)
    if not page:
        return None
    content = pdfium.FPDFText_LoadPage(page)
    try:
        return characters_of(content) if content else None
    finally:
        if content:
            pdfium.FPDFText_ClosePage(content)
        pdfium.FPDF_ClosePage(page)


def characters_of(content: pdfium.FPDF_TEXTPAGE) -> str:
    count = pdfium.FPDFText_CountChars(content)
    if count <= 0:
        return ""
    # A character may need two units; one more ends the text.
    units = (ctypes.c_ushort * (2 * count + 1))()
    written = pdfium.FPDFText_GetText(content, 0, count, units)
    return bytes(memoryview(units)[: max(0, written - 1)]).decode("utf-16-le", "ignore")


def mended_text(text: str) -> str:
    """Words whole again, and nothing that Markdown would take for its own."""
    text = text.replace("\r\n", "\n").rstrip()
    rest, _, last = text.rpartition("\n")
    if rest and PAGE_NUMBER.fullmatch(last):
        text = rest
    if "\ufffe" in text:
        text = HYPHEN.sub("", text).replace("\ufffe", "-")
    if "...." in text or ". . . ." in text:
        text = LEADER.sub(" … ", text)
    if LIGATURE.search(text):
        text = LIGATURE.sub(lambda found: LIGATURE_LETTERS[found[0]], text)
    if "# " in text and ("\n#" in text or text.startswith("#")):
        text = HASH.sub(r"\\", text)
    return text


def ocr_pages(document: pypdfium2.PdfDocument, texts: list[str], limits: Limits) -> list[str]:
    """The pages without text, read from their pictures, as many as are allowed."""
    left = limits.scanned
    found = []
    for number, text in enumerate(texts):
        if left and len(text) < SCANNED_CHARACTERS:
            left -= 1
            # One page that cannot be made out takes nothing from the others.
            with suppress(Unreadable, pypdfium2.PdfiumError):
                text = ocr.page(document, number) or text
        found.append(text)
    return found
