"""Files that hold others: books, mails, packed files, and what Office wrote before 2007."""

from __future__ import annotations

import gzip
import posixpath
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_binary_file
from email.header import decode_header
from email.message import EmailMessage, MIMEPart
from email.policy import EmailPolicy
from functools import lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

from penstock.net.media_type import media_type
from penstock_apps.knowledge.errors import Skipped, Unreadable
from penstock_apps.knowledge.extract.archive import BLOCK, Archive, inflates, locked, told
from penstock_apps.knowledge.extract.detect import declared_in, decode, marked, sniff
from penstock_apps.knowledge.extract.extract import extract
from penstock_apps.knowledge.extract.limits import MEGABYTE, Limits
from penstock_apps.knowledge.file_names import display_name
from penstock_apps.knowledge.text import Attachment, Extracted, Section

# Books: a section a chapter, in the order in which they are read.

EPUB_PAGES = ("application/xhtml+xml", "text/html")


def read_epub(path: Path, name: str, limits: Limits) -> Extracted:
    with Archive(path, limits) as archive:
        container = archive.xml("META-INF/container.xml")
        root = next(container.iter("rootfile")).get("full-path", "")
        package = archive.xml(root)
        folder = posixpath.dirname(root)
        parts = {
            item.get("id"): posixpath.normpath(
                posixpath.join(folder, unquote(item.get("href", "")))
            )
            for item in package.iter("item")
            if item.get("media-type") in EPUB_PAGES and item.get("properties") != "nav"
        }
        order = [parts.get(entry.get("idref")) for entry in package.iter("itemref")]
        # A chapter is read once, however often a book leads to it.
        chapters = [part for part in dict.fromkeys(order) if part in archive.names]
        if not {*chapters}.isdisjoint(protected_files(archive)):
            raise Unreadable(
                "encrypted",
                "The book is protected against copying and can only be read in its shop's program.",
            )
        sections = tuple(Section(epub_chapter(archive.read(part))) for part in chapters if part)
    metadata = told(package)
    return Extracted(sections, kind="epub", title=metadata.pop("title", None), metadata=metadata)


def epub_chapter(data: bytes) -> str:
    # Its libraries are loaded for the few that need them.
    from penstock_apps.knowledge.extract.html import page

    return page(decode(data, declared_in(data)))[0]


def protected_files(archive: Archive) -> set[str]:
    """The files that are encrypted; fonts often are, and do not matter."""
    name = "META-INF/encryption.xml"
    if name not in archive.names:
        return set()
    references = archive.xml(name).iter("CipherReference")
    return {unquote(reference.get("URI", "")) for reference in references}


# E-mail: who wrote what to whom, and what was attached.

MAIL_HEADERS = ("From", "To", "Cc", "Date")
# To read a header takes the square of its length.
MAX_HEADER_CHARACTERS = 4_000
# Those that only say how a part is written are read several times.
MAX_OTHER_HEADER_CHARACTERS = 1_000
# Encodings in which most texts have NULs.
WIDE_ENCODINGS = ("utf-16", "utf-32", "utf16", "utf32")
# Attachments beyond those that are read which the text still names.
MAX_UNREAD_NAMED = 10


class BoundedPolicy(EmailPolicy):
    """Cuts headers that nobody reads to the end, of a mail and of its parts."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        is_shown = name.title() in (*MAIL_HEADERS, "Subject")
        return name, value[: MAX_HEADER_CHARACTERS if is_shown else MAX_OTHER_HEADER_CHARACTERS]

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return parsed_header(name, value)


# Each look at a header parses it, and those of many parts are the same.
@lru_cache(maxsize=100)
def parsed_header(name: str, value: str) -> Any:
    """A header; one that breaks its parser is read up to its parameters, or not at all."""
    for text in (value, value.partition(";")[0]):
        # Headers of spam are made to break who reads them.
        with suppress(Exception):
            return EmailPolicy().header_fetch_parse(name, text)
    return EmailPolicy().header_fetch_parse(name, "")


# What was read is written as it was: headers that are folded anew would be parsed again.
MAIL_POLICY = BoundedPolicy(refold_source="none")


def read_mail(path: Path, name: str, limits: Limits) -> Extracted:
    with path.open("rb") as file:
        message = message_from_binary_file(file, policy=MAIL_POLICY)
    assert isinstance(message, EmailMessage)
    main = message.get_body(preferencelist=("plain", "html"))
    headers = {name: said for name in MAIL_HEADERS if (said := header_text(message, name, main))}
    subject = header_text(message, "Subject", main)
    text = body_text(main)
    names, attachments = list_attachments(message, main, limits)
    whole = "\n\n".join(
        filter(
            None,
            [
                f"# {subject}" if subject else "",
                "\n".join(f"{name}: {said}" for name, said in headers.items()),
                text,
                names,
            ],
        )
    )
    metadata = {name.lower(): said for name, said in headers.items()}
    return Extracted(
        (Section(whole),), kind="email", title=subject, metadata=metadata, attachments=attachments
    )


def header_text(message: EmailMessage, name: str, main: MIMEPart | None) -> str:
    try:
        said = str(message.get(name, ""))
        if any(character == "\ufffd" or "\ud800" <= character <= "\udfff" for character in said):
            said = "".join(decoded_header(message, name, main))
        return " ".join(said.split())
    except Exception:
        return ""


def decoded_header(message: EmailMessage, name: str, main: MIMEPart | None) -> Iterator[str]:
    """A header in bytes beyond ASCII, or in an encoding that holds more than it is declared to."""
    raw = next(value for key, value in message.raw_items() if key.lower() == name.lower())
    data, charset = text_bytes(main) if main is not None and not raw.isascii() else (b"", None)
    text = decoded_like_body(raw.encode("utf-8", "surrogateescape"), data, charset)
    for part, encoding in decode_header(text):
        if isinstance(part, str):
            yield part
        elif encoding is None:
            yield part.decode("raw-unicode-escape")
        else:
            yield decode(part, encoding)


def decoded_like_body(header: bytes, body: bytes, charset: str | None) -> str:
    """A header is short: it is in the encoding of the body, if that fits."""
    line = b" ".join(header.split())
    text = decode(line + b"\n" + body, charset).split("\n")[0]
    return decode(line) if "\ufffd" in text else text


def body_text(part: MIMEPart | None) -> str:
    if part is None:
        return ""
    data, charset = text_bytes(part)
    if part.get_content_type() == "text/html":
        # Its libraries are loaded for the few that need them.
        from penstock_apps.knowledge.extract.html import page

        return page(decode(data, charset, declared_in(data)))[0]
    return decode(data, charset).strip()


def text_bytes(part: MIMEPart) -> tuple[bytes, str | None]:
    """The bytes of a text and its encoding, without stray NULs: they would look like UTF-16."""
    data, charset = part_bytes(part)
    is_wide = marked(data) or (charset or "").startswith(WIDE_ENCODINGS)
    return data if is_wide else data.replace(b"\x00", b""), charset


def part_bytes(part: MIMEPart) -> tuple[bytes, str | None]:
    """The bytes of a part, and the encoding that it declares."""
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b"", part.get_content_charset()


def list_attachments(
    message: EmailMessage, main: MIMEPart | None, limits: Limits
) -> tuple[str, tuple[Attachment, ...]]:
    """A line that names the attachments, with why some are not read; and those that are."""
    parts = leaf_parts(message)
    some = [*islice(attachment_parts(parts, main), limits.attachments + MAX_UNREAD_NAMED)]
    names = [attachment_name(part) for part in some]
    read = 0 if limits.nested == 0 else limits.attachments
    why = (
        "its mail is nested too deep in other mails"
        if limits.nested == 0
        else f"only {limits.attachments} of a mail are"
    )
    told = names[:read] + [f"{name} (not read: {why})" for name in names[read:]]
    # The rest is only counted: to look at each part takes as long as to read it.
    if rest := sum(part is not main for part in parts):
        told.append(f"and {rest:,} more parts of the mail")
    found = tuple(attachment_of(part, name) for part, name in zip(some[:read], names, strict=False))
    return ("Attachments: " + ", ".join(told) if told else ""), found


def attachment_parts(parts: Iterator[MIMEPart], main: MIMEPart | None) -> Iterator[MIMEPart]:
    for part in parts:
        is_mail = part.get_content_type() == "message/rfc822"
        # A picture that is shown within the text is part of its looks.
        is_shown = part.get_content_maintype() == "image" and part["Content-ID"] is not None
        is_attached = is_mail or part.is_attachment() or part.get_filename()
        if part is not main and not is_shown and is_attached:
            yield part


def leaf_parts(part: MIMEPart) -> Iterator[MIMEPart]:
    if part.is_multipart() and part.get_content_maintype() == "multipart":
        for inner in part.iter_parts():
            yield from leaf_parts(inner)
    else:
        yield part


def attachment_name(part: MIMEPart) -> str:
    is_mail = part.get_content_type() == "message/rfc822"
    return display_name(" ".join((part.get_filename() or ("mail.eml" if is_mail else "")).split()))


def attachment_of(part: MIMEPart, name: str) -> Attachment:
    if part.get_content_type() == "message/rfc822":
        [inner] = part.iter_parts()
        return Attachment(name, "message/rfc822", inner.as_bytes())
    data, charset = part_bytes(part)
    return Attachment(name, media_type(part.get_content_type(), charset), data)


# A file that was packed alone: it is read as what is in it.


def read_gzip(path: Path, name: str, limits: Limits, charset: str | None = None) -> Extracted:
    likely = max(10 * MEGABYTE, path.stat().st_size * limits.ratio)
    most = min(limits.inflated, limits.bytes, likely)
    # Beside it, so that what a killed process leaves of it is swept with the rest.
    with TemporaryDirectory(dir=path.parent) as folder:
        inside = Path(folder) / "inside"
        with gzip.open(path) as packed, inside.open("wb") as file:
            while block := packed.read(BLOCK):
                most -= len(block)
                if most < 0:
                    raise inflates()
                file.write(block)
        # Packed again and again, a few bytes become a world.
        if sniff(inside, inner_name(name)) == "gzip":
            raise inflates()
        media_type = f"text/plain; charset={charset}" if charset else None
        return extract(inside, inner_name(name), limits=limits, media_type=media_type)


def inner_name(name: str) -> str:
    lower = name.lower()
    return name[:-3] if lower.endswith(".gz") else name


# Files of Office before 2007, and newer ones that are locked: both look alike from outside.

# The name of what a locked document is kept under, as the container writes it.
LOCKED_STREAM = "EncryptedPackage".encode("utf-16-le")


def read_ole(path: Path, name: str, limits: Limits) -> Extracted:
    if LOCKED_STREAM in path.read_bytes():
        raise locked()
    raise Skipped(
        "unsupported",
        "Files of Office before 2007 and of Outlook are not read. "
        "Save it as .docx, .xlsx, .pptx, .eml or PDF.",
    )
