"""Extract the text of a file, or raise an error that tells the file's owner why it has none."""

from __future__ import annotations

from collections.abc import Callable
from email.message import Message
from functools import partial
from importlib import import_module
from pathlib import Path

from penstock_apps.knowledge.errors import Skipped, Unreadable
from penstock_apps.knowledge.extract import ocr
from penstock_apps.knowledge.extract.clean import clean_line, clean_text
from penstock_apps.knowledge.extract.detect import encoding_of_mark, is_named_as_text, sniff
from penstock_apps.knowledge.extract.limits import ReadLimits
from penstock_apps.knowledge.text import Extracted, Section

Reader = Callable[[Path, str, ReadLimits], Extracted]

# A kind's module is imported with the first file of that kind.
READERS = {
    "code": "text:read_plain",
    "csv": "spreadsheet:read_csv",
    "docx": "office:read_docx",
    "email": "containers:read_mail",
    "epub": "containers:read_epub",
    "gzip": "containers:read_gzip",
    "html": "html:read",
    "image": "ocr:read",
    "json": "text:read_json",
    "jsonl": "text:read_json",
    "markdown": "text:read_markdown",
    "notebook": "text:read_notebook",
    "odp": "office:read_odf",
    "ods": "office:read_odf",
    "odt": "office:read_odf",
    "ole": "containers:read_ole",
    "pdf": "pdf:read",
    "pptx": "office:read_pptx",
    "rtf": "text:read_rtf",
    "text": "text:read_plain",
    "xlsx": "spreadsheet:read_xlsx",
}


BLOCK_CHARACTERS = 64 * 1024
# The kinds of which a sender may declare the encoding.
KINDS_WITH_CHARSET = frozenset({"code", "csv", "gzip", "html", "markdown", "text"})


def extract(
    path: Path, name: str, *, limits: ReadLimits | None = None, media_type: str | None = None
) -> Extracted:
    """Return the text of the file at `path`, whose original name is `name`.

    `media_type` is the media type that the sender declares, such as `text/html; charset=koi8-r`.
    Raises `Unreadable` if the file has no text that Penstock can read.
    """
    limits = limits or ReadLimits()
    size = path.stat().st_size
    if size == 0:
        raise Skipped("empty", "The file is empty. There is nothing in it to read.")
    if is_blank(path):
        raise Skipped("empty", "The file holds nothing but white space.")
    if size > limits.bytes:
        raise Unreadable(
            "too_large",
            f"The file has {megabytes(size)} MB; at most {megabytes(limits.bytes)} MB are read. "
            "Split it into smaller files.",
        )
    kind = sniff(path, name, media_type)
    if kind is None or kind not in READERS:
        raise unread_error(name)
    read = reader_for(kind, declared_charset(media_type))
    return check_and_clean(run_reader(read, path, name, limits), limits)


def is_blank(path: Path) -> bool:
    with path.open("rb") as file:
        encoding = encoding_of_mark(file.read(4)) or "utf-8"
    with path.open(encoding=encoding, errors="replace") as file:
        return all(block.isspace() for block in iter(partial(file.read, BLOCK_CHARACTERS), ""))


def unread_error(name: str) -> Unreadable:
    suffix = Path(name).suffix
    if is_named_as_text(name):
        return Unreadable(
            "broken",
            f"The file's name ends in {suffix}, but its content is not text. "
            "Give it the suffix of its real format, or save it as text.",
        )
    return Skipped(
        "unsupported",
        f"Files such as {suffix or 'this one'} are not read. Save it as PDF, Office, HTML or text.",
    )


def reader_for(kind: str, charset: str | None = None) -> Reader:
    module, _, function = READERS[kind].partition(":")
    read: Reader = getattr(import_module(f"penstock_apps.knowledge.extract.{module}"), function)
    read_charset: Callable[..., Extracted] = read
    if charset and kind in KINDS_WITH_CHARSET:
        return partial(read_charset, charset=charset)
    return read


def declared_charset(media_type: str | None) -> str | None:
    """Return the encoding that a media type declares, or None."""
    if not media_type or "charset" not in media_type.lower():
        return None
    message = Message()
    message["Content-Type"] = media_type
    return message.get_content_charset()


def run_reader(read: Reader, path: Path, name: str, limits: ReadLimits) -> Extracted:
    """Read a file, and raise `Unreadable` if its parser raises any error.

    A `MemoryError` is passed on, because a lack of memory is not the file's fault.
    """
    try:
        return read(path, name, limits)
    except (Unreadable, MemoryError):
        raise
    except Exception:
        # Parsers quote what they cannot read, and name their own classes. Owners see neither.
        raise Unreadable(
            "broken",
            "The file is damaged or not what its name says. Open it, save it anew and send that.",
        ) from None


def check_and_clean(extracted: Extracted, limits: ReadLimits) -> Extracted:
    """Clean the text. Raises `Unreadable` if the file has no text or too much text."""
    sections = tuple(
        Section(text, section.page)
        for section in extracted.sections
        if (text := clean_text(section.text))
    )
    characters = sum(len(section.text) for section in sections)
    if characters > limits.characters:
        raise too_much_text_error(limits)
    if characters == 0:
        raise no_text_error(extracted.kind)
    return Extracted(
        sections=sections,
        kind=extracted.kind,
        title=clean_line(extracted.title),
        metadata={
            key: line for key, value in extracted.metadata.items() if (line := clean_line(value))
        },
        attachments=extracted.attachments,
    )


def no_text_error(kind: str) -> Unreadable:
    remedy = "If it should hold some, save it anew and send that."
    if kind in ("pdf", "image"):
        remedy = "If it is a scan, send a sharper one, or its text."
        if not ocr.available():
            remedy = (
                "If it is a scan, tesseract must be installed here "
                "(Debian: apt-get install tesseract-ocr); or send its text."
            )
    return Unreadable("no_text", f"No text was found in the file. {remedy}")


def too_much_text_error(limits: ReadLimits) -> Unreadable:
    return Unreadable(
        "too_large",
        f"The file holds more than {limits.characters:,} characters of text, the most "
        "that is read. Split it into smaller files.",
    )


def megabytes(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f}"
