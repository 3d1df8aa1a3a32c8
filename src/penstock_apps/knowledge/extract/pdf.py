"""PDF, page by page."""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from functools import partial
from pathlib import Path

import pypdfium2
import pypdfium2.raw as pdfium

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import ocr, outline
from penstock_apps.knowledge.extract.extract import too_much_text
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.extract.pdf_string import string
from penstock_apps.knowledge.text import Extracted, Section

# PDFium's mark for a hyphen at the end of a line, which it has joined with the next.
HYPHEN = re.compile("(?<=[a-zß-ÿ])\ufffe(?=[a-zß-ÿ])")
# The dots of a table of contents: to an embedding they are words.
LEADER = re.compile(r" ?\.(?: ?\.){4,} ?")
# To Markdown it would be a heading.
HASH = re.compile(r"^(?=#{1,6} )", re.MULTILINE)
LIGATURE = re.compile("[\ufb00-\ufb06]")
LETTERS = dict(
    zip(
        "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06",
        ["ff", "fi", "fl", "ffi", "ffl", "st", "st"],
        strict=True,
    )
)
# Alone on the last line.
PAGE_NUMBER = re.compile(r"[-–\s]*\d{1,4}[-–\s]*")
METADATA = ("Title", "Author", "Subject", "Keywords")
PROGRAM = re.compile(r"^Microsoft (?:Word|PowerPoint|Excel) - ")
# What programs write where nobody told them anything.
UNTOLD = ("untitled", "unspecified", "anonymous")
# A scan with a stamp or a page number on it is still a scan.
SCANNED_CHARACTERS = 20


def read(path: Path, name: str, limits: Limits) -> Extracted:
    with opened(path) as document:
        pages = len(document)
        if pages > limits.pages:
            raise Unreadable(
                "too_many_pages",
                f"The PDF has {pages:,} pages; at most {limits.pages:,} are read. Split it.",
            )
        texts = [*texts_of(document, limits)]
        if sum(map(len, texts)) < SCANNED_CHARACTERS * pages and ocr.available():
            texts = [*scanned(document, texts, limits)]
        said = told(document)
        headings = outline.headings(document)
    sections = tuple(
        Section(outline.marked(text, headings.get(number, ())), page=number)
        for number, text in enumerate(texts, start=1)
    )
    title = PROGRAM.sub("", said.get("Title", "")).strip()
    metadata = {key.lower(): said[key] for key in METADATA[1:] if key in said}
    return Extracted(sections, kind="pdf", title=title, metadata=metadata | {"pages": str(pages)})


def told(document: pypdfium2.PdfDocument) -> dict[str, str]:
    said = {
        key: string(partial(pdfium.FPDF_GetMetaText, document, key.encode())) for key in METADATA
    }
    return {
        key: value for key, value in said.items() if value and value.strip().lower() not in UNTOLD
    }


def opened(path: Path) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise Unreadable(
                "encrypted",
                "The PDF is locked with a password. Save it without one and send that.",
            ) from None
        raise


def texts_of(document: pypdfium2.PdfDocument, limits: Limits) -> list[str]:
    """The text of each page; '' for one that is broken, unless all are."""
    texts: list[str] = []
    characters = broken = 0
    for number in range(len(document)):
        text = text_of(document, number)
        broken += text is None
        texts.append(mended(text or ""))
        characters += len(texts[-1])
        if characters > limits.characters:
            raise too_much_text(limits)
    if broken == len(texts):
        raise Unreadable(
            "broken", "No page of the PDF can be read. Open it, save it anew and send that."
        )
    return texts


def text_of(document: pypdfium2.PdfDocument, number: int) -> str | None:
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


def mended(text: str) -> str:
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
        text = LIGATURE.sub(lambda found: LETTERS[found[0]], text)
    if "# " in text and ("\n#" in text or text.startswith("#")):
        text = HASH.sub(r"\\", text)
    return text


def scanned(document: pypdfium2.PdfDocument, texts: list[str], limits: Limits) -> list[str]:
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
