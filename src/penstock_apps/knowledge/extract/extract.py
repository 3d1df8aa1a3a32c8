"""From a file to its text, or to a sentence that says why there is none."""

from __future__ import annotations

from collections.abc import Callable
from email.message import Message
from functools import partial
from importlib import import_module
from pathlib import Path

from penstock_apps.knowledge.errors import Skipped, Unreadable
from penstock_apps.knowledge.extract import ocr
from penstock_apps.knowledge.extract.clean import line, tidied
from penstock_apps.knowledge.extract.detect import marked, named_as_text, sniff
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.text import Extracted, Section

Read = Callable[[Path, str, Limits], Extracted]

# The module that reads a kind is imported with the first file of that kind.
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


BLOCK = 64 * 1024
# Kinds whose sender may declare an encoding.
DECLARABLE = frozenset({"code", "csv", "gzip", "html", "markdown", "text"})


def extract(
    path: Path, name: str, *, limits: Limits | None = None, media_type: str | None = None
) -> Extracted:
    """The text of a file that its owner calls `name`; `Unreadable` where there is none.

    `media_type` is what its sender says of it, as in `text/html; charset=koi8-r`.
    """
    limits = limits or Limits()
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
        raise unread(name)
    return whole(attempt(reader(kind, charset(media_type)), path, name, limits), limits)


def is_blank(path: Path) -> bool:
    with path.open("rb") as file:
        encoding = marked(file.read(4)) or "utf-8"
    with path.open(encoding=encoding, errors="replace") as file:
        return all(block.isspace() for block in iter(partial(file.read, BLOCK), ""))


def unread(name: str) -> Unreadable:
    suffix = Path(name).suffix
    if named_as_text(name):
        return Unreadable(
            "broken",
            f"It is named {suffix}, but its content is not text. "
            "Name it after what it is, or save it as text.",
        )
    return Skipped(
        "unsupported",
        f"Files such as {suffix or 'this one'} are not read. Save it as PDF, Office, HTML or text.",
    )


def reader(kind: str, charset: str | None = None) -> Read:
    module, _, function = READERS[kind].partition(":")
    read: Read = getattr(import_module(f"penstock_apps.knowledge.extract.{module}"), function)
    declaring: Callable[..., Extracted] = read
    return partial(declaring, charset=charset) if charset and kind in DECLARABLE else read


def charset(media_type: str | None) -> str | None:
    """The encoding that a media type declares."""
    if not media_type or "charset" not in media_type.lower():
        return None
    message = Message()
    message["Content-Type"] = media_type
    return message.get_content_charset()


def attempt(read: Read, path: Path, name: str, limits: Limits) -> Extracted:
    """Whatever a parser stumbles over, the file is broken; a lack of memory is no fault of it."""
    try:
        return read(path, name, limits)
    except (Unreadable, MemoryError):
        raise
    except Exception:
        # Parsers quote what they could not read, and name their own classes: neither is for owners.
        raise Unreadable(
            "broken",
            "The file is damaged or not what its name says. Open it, save it anew and send that.",
        ) from None


def whole(found: Extracted, limits: Limits) -> Extracted:
    """The text as it is kept, if there is some and not too much of it."""
    sections = tuple(
        Section(text, section.page) for section in found.sections if (text := tidied(section.text))
    )
    characters = sum(len(section.text) for section in sections)
    if characters > limits.characters:
        raise too_much_text(limits)
    if characters == 0:
        raise no_text(found.kind)
    return Extracted(
        sections=sections,
        kind=found.kind,
        title=line(found.title),
        metadata={key: said for key, value in found.metadata.items() if (said := line(value))},
        attachments=found.attachments,
    )


def no_text(kind: str) -> Unreadable:
    remedy = "If it should hold some, save it anew and send that."
    if kind in ("pdf", "image"):
        remedy = "If it is a scan, send a sharper one, or its text."
        if not ocr.available():
            remedy = (
                "If it is a scan, tesseract must be installed here "
                "(Debian: apt-get install tesseract-ocr); or send its text."
            )
    return Unreadable("no_text", f"No text was found in the file. {remedy}")


def too_much_text(limits: Limits) -> Unreadable:
    return Unreadable(
        "too_large",
        f"The file holds more than {limits.characters:,} characters of text, the most "
        "that is read. Split it into smaller files.",
    )


def megabytes(size: int) -> str:
    return f"{size / 1024 / 1024:,.1f}"
