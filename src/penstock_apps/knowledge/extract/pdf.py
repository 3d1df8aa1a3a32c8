"""Read PDF files page by page, with their bookmarks as headings."""

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
from penstock_apps.knowledge.extract.extract import too_much_text_error
from penstock_apps.knowledge.extract.limits import ReadLimits
from penstock_apps.knowledge.text import Extracted, Section

# PDFium writes strings into a buffer. Halves of surrogate pairs are left out.

TERMINATOR_BYTES = 2


def read_string(get: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str:
    """Return a string that a function of PDFium writes into a buffer.

    `get` calls the function with a buffer and its size, and returns how many bytes the string
    needs.
    """
    size = get(None, 0)
    buffer = ctypes.create_string_buffer(size)
    get(buffer, size)
    return buffer.raw[: max(0, size - TERMINATOR_BYTES)].decode("utf-16-le", "ignore")


# The bookmarks of a PDF make headings of the lines that they lead to.

# More bookmarks than this are an index rather than headings.
MAX_BOOKMARKS = 5_000
MAX_BOOKMARK_DEPTH = 6
# A line may be "2.1 Options", "Chapter 3: Names" or "A.4 Tables" while its bookmark has no number.
HEADING_NUMBER = re.compile(
    r"^(?:(?:chapter|part|appendix|section) )?(?:[0-9]+|[a-z]|[ivx]+)(?:\.[0-9]+)*[.:]? (?=\S)"
)

# Bookmarks have plain quotes, and pages have typographic ones.
SINGLE_QUOTES = re.compile("[`´‘’]")
DOUBLE_QUOTES = re.compile("[“”„]")

Heading = tuple[str, int]


def bookmark_headings(document: pypdfium2.PdfDocument) -> dict[int, list[Heading]]:
    """Return the titles and levels of the bookmarks that lead to each page, by page number."""
    headings: dict[int, list[Heading]] = {}
    for count, bookmark in enumerate(document.get_toc(max_depth=MAX_BOOKMARK_DEPTH)):
        if count == MAX_BOOKMARKS:
            return {}
        target = bookmark.get_dest()
        page = target.get_index() if target else None
        if page is None:
            continue
        title = read_string(partial(pdfium.FPDFBookmark_GetTitle, bookmark))
        if words := normalise_words(title).replace("\n", " ").strip():
            headings.setdefault(page + 1, []).append((words, bookmark.level + 1))
    return headings


def mark_headings(text: str, headings: Sequence[Heading]) -> str:
    """Turn the lines of a page that match the titles of its bookmarks into Markdown headings."""
    if not headings:
        return text
    lines = text.split("\n")
    places = index_lines(normalise_words(text).split("\n"))
    start = 0
    for title, level in headings:
        at = find_heading_line(title, places, start)
        if at is not None:
            lines[at] = f"\n{'#' * level} {lines[at].strip()}\n"
            start = at + 1
    return "\n".join(lines)


def index_lines(lines: list[str]) -> dict[str, list[int]]:
    """Return the numbers of the lines that have the same text.

    A line is listed under its text, and under its text without the number of a heading. A page may
    have many lines and many headings, so searching all lines for each heading would be slow.
    """
    places: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        for words in {line, HEADING_NUMBER.sub("", line)} - {""}:
            places.setdefault(words, []).append(at)
    return places


def find_heading_line(title: str, places: dict[str, list[int]], start: int) -> int | None:
    """Return the number of the first line from `start` on that has the words of a title, or None.

    The line and the title may have different heading numbers, or none.
    """
    candidates = [places.get(words, []) for words in (title, HEADING_NUMBER.sub("", title))]
    first_lines = [
        lines[at] for lines in candidates if (at := bisect_left(lines, start)) < len(lines)
    ]
    return min(first_lines, default=None)


def normalise_words(text: str) -> str:
    """Normalise quotes, case and spaces, which may differ between a bookmark and its line."""
    text = DOUBLE_QUOTES.sub('"', SINGLE_QUOTES.sub("'", text)).casefold()
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


# PDFium writes this character for a hyphen at the end of a line that it has joined with the next.
JOINED_HYPHEN = re.compile("(?<=[a-zß-ÿ])\ufffe(?=[a-zß-ÿ])")
# An embedding would take the dots in a table of contents for words.
DOT_LEADER = re.compile(r" ?\.(?: ?\.){4,} ?")
# Markdown would take such a line for a heading.
HASH_AT_LINE_START = re.compile(r"^(?=#{1,6} )", re.MULTILINE)
LIGATURE = re.compile("[\ufb00-\ufb06]")
LIGATURE_LETTERS = dict(
    zip(
        "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06",
        ["ff", "fi", "fl", "ffi", "ffl", "st", "st"],
        strict=True,
    )
)
# A number on a last line of its own.
PAGE_NUMBER = re.compile(r"[-–\s]*\d{1,4}[-–\s]*")
PDF_METADATA = ("Title", "Author", "Subject", "Keywords")
PROGRAM_PREFIX = re.compile(r"^Microsoft (?:Word|PowerPoint|Excel) - ")
# Programs write these where nobody has entered a title.
PLACEHOLDER_TITLES = ("untitled", "unspecified", "anonymous")
# A scan with a stamp or a page number on it is still a scan.
MAX_SCAN_CHARACTERS = 20


def read(path: Path, name: str, limits: ReadLimits) -> Extracted:
    with open_pdf(path) as document:
        pages = len(document)
        if pages > limits.pages:
            raise Unreadable(
                "too_many_pages",
                f"The PDF has {pages:,} pages; at most {limits.pages:,} are read. Split it.",
            )
        texts = [*page_texts(document, limits)]
        if sum(map(len, texts)) < MAX_SCAN_CHARACTERS * pages and ocr.available():
            texts = [*ocr_pages(document, texts, limits)]
        info = document_info(document)
        headings = bookmark_headings(document)
    sections = tuple(
        Section(mark_headings(text, headings.get(number, ())), page=number)
        for number, text in enumerate(texts, start=1)
    )
    title = PROGRAM_PREFIX.sub("", info.get("Title", "")).strip()
    metadata = {key.lower(): info[key] for key in PDF_METADATA[1:] if key in info}
    return Extracted(sections, kind="pdf", title=title, metadata=metadata | {"pages": str(pages)})


def document_info(document: pypdfium2.PdfDocument) -> dict[str, str]:
    info = {
        key: read_string(partial(pdfium.FPDF_GetMetaText, document, key.encode()))
        for key in PDF_METADATA
    }
    return {
        key: value
        for key, value in info.items()
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


def page_texts(document: pypdfium2.PdfDocument, limits: ReadLimits) -> list[str]:
    """Return the texts of all pages. The text of a broken page is ''.

    Raises `Unreadable` if all pages are broken, or all texts together are too long.
    """
    texts: list[str] = []
    characters = broken = 0
    for number in range(len(document)):
        text = page_text(document, number)
        broken += text is None
        texts.append(clean_page_text(text or ""))
        characters += len(texts[-1])
        if characters > limits.characters:
            raise too_much_text_error(limits)
    if broken == len(texts):
        raise Unreadable(
            "broken", "No page of the PDF can be read. Open it, save it anew and send that."
        )
    return texts


def page_text(document: pypdfium2.PdfDocument, number: int) -> str | None:
    """Return the text of a page, or None if the page is broken.

    This calls PDFium directly, because an object and a finalizer for each page would take a tenth
    more time.
    """
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
    # A character may need two units, and the text ends with one more.
    units = (ctypes.c_ushort * (2 * count + 1))()
    written = pdfium.FPDFText_GetText(content, 0, count, units)
    return bytes(memoryview(units)[: max(0, written - 1)]).decode("utf-16-le", "ignore")


def clean_page_text(text: str) -> str:
    """Clean the text of a page, and escape lines that Markdown would take for headings.

    This joins hyphenated words, spells out ligatures, shortens rows of dots, and removes a page
    number at the end.
    """
    text = text.replace("\r\n", "\n").rstrip()
    rest, _, last = text.rpartition("\n")
    if rest and PAGE_NUMBER.fullmatch(last):
        text = rest
    if "\ufffe" in text:
        text = JOINED_HYPHEN.sub("", text).replace("\ufffe", "-")
    if "...." in text or ". . . ." in text:
        text = DOT_LEADER.sub(" … ", text)
    if LIGATURE.search(text):
        text = LIGATURE.sub(lambda ligature: LIGATURE_LETTERS[ligature[0]], text)
    if "# " in text and ("\n#" in text or text.startswith("#")):
        text = HASH_AT_LINE_START.sub(r"\\", text)
    return text


def ocr_pages(document: pypdfium2.PdfDocument, texts: list[str], limits: ReadLimits) -> list[str]:
    """Return the texts of all pages, after reading the pages without text by OCR.

    At most `limits.scanned` pages are read by OCR.
    """
    pages_left = limits.scanned
    read_texts = []
    for number, text in enumerate(texts):
        if pages_left and len(text) < MAX_SCAN_CHARACTERS:
            pages_left -= 1
            # A page that cannot be read does not affect the others.
            with suppress(Unreadable, pypdfium2.PdfiumError):
                text = ocr.read_page(document, number) or text
        read_texts.append(text)
    return read_texts
