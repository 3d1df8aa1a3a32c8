"""Read files that contain others: books, mails, gzip files, and documents of Office before 2007."""

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
from penstock_apps.knowledge.extract.archive import (
    BLOCK_BYTES,
    Archive,
    dublin_core,
    inflates_error,
    locked_error,
)
from penstock_apps.knowledge.extract.detect import (
    declared_encoding,
    decode,
    encoding_of_mark,
    sniff,
)
from penstock_apps.knowledge.extract.extract import extract
from penstock_apps.knowledge.extract.limits import MEGABYTE, ReadLimits
from penstock_apps.knowledge.file_names import display_name
from penstock_apps.knowledge.text import Attachment, Extracted, Section

# Books have a section for each chapter, in reading order.

EPUB_PAGES = ("application/xhtml+xml", "text/html")


def read_epub(path: Path, name: str, limits: ReadLimits) -> Extracted:
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
        # A chapter is read once, even if the book lists it several times.
        chapters = [part for part in dict.fromkeys(order) if part in archive.names]
        if not {*chapters}.isdisjoint(protected_files(archive)):
            raise Unreadable(
                "encrypted",
                "The book is protected against copying and can only be read in its shop's program.",
            )
        sections = tuple(Section(epub_chapter(archive.read(part))) for part in chapters if part)
    metadata = dublin_core(package)
    return Extracted(sections, kind="epub", title=metadata.pop("title", None), metadata=metadata)


def epub_chapter(data: bytes) -> str:
    # The libraries are loaded for the few files that need them.
    from penstock_apps.knowledge.extract.html import read_page

    return read_page(decode(data, declared_encoding(data)))[0]


def protected_files(archive: Archive) -> set[str]:
    """Return the encrypted files of a book. They often include fonts, which are not needed."""
    name = "META-INF/encryption.xml"
    if name not in archive.names:
        return set()
    references = archive.xml(name).iter("CipherReference")
    return {unquote(reference.get("URI", "")) for reference in references}


# The text of an e-mail has its headers, its body and the names of its attachments.

MAIL_HEADERS = ("From", "To", "Cc", "Date")
# Parsing a header takes the square of its length.
MAX_HEADER_CHARACTERS = 4_000
# Headers that describe the encoding of a part are parsed several times.
MAX_OTHER_HEADER_CHARACTERS = 1_000
# In these encodings most texts contain NULs.
WIDE_ENCODINGS = ("utf-16", "utf-32", "utf16", "utf32")
# The text names this many attachments more than are read.
MAX_UNREAD_NAMED = 10


class BoundedPolicy(EmailPolicy):
    """Shortens long headers of a mail and of its parts, because parsing them is slow."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        is_shown = name.title() in (*MAIL_HEADERS, "Subject")
        return name, value[: MAX_HEADER_CHARACTERS if is_shown else MAX_OTHER_HEADER_CHARACTERS]

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return parsed_header(name, value)


# The email package parses a header with each access, and many parts have the same headers.
@lru_cache(maxsize=100)
def parsed_header(name: str, value: str) -> Any:
    """Parse a header.

    If that fails, parse the header without its parameters. If that fails, too, return an empty
    header.
    """
    for text in (value, value.partition(";")[0]):
        # Headers of spam are made to break parsers.
        with suppress(Exception):
            return EmailPolicy().header_fetch_parse(name, text)
    return EmailPolicy().header_fetch_parse(name, "")


# Attached mails are written as they were read. Folding their headers would parse them again.
MAIL_POLICY = BoundedPolicy(refold_source="none")


def read_mail(path: Path, name: str, limits: ReadLimits) -> Extracted:
    with path.open("rb") as file:
        message = message_from_binary_file(file, policy=MAIL_POLICY)
    assert isinstance(message, EmailMessage)
    main = message.get_body(preferencelist=("plain", "html"))
    headers = {name: value for name in MAIL_HEADERS if (value := header_text(message, name, main))}
    subject = header_text(message, "Subject", main)
    body = body_text(main)
    names, attachments = list_attachments(message, main, limits)
    text = "\n\n".join(
        filter(
            None,
            [
                f"# {subject}" if subject else "",
                "\n".join(f"{name}: {value}" for name, value in headers.items()),
                body,
                names,
            ],
        )
    )
    metadata = {name.lower(): value for name, value in headers.items()}
    return Extracted(
        (Section(text),), kind="email", title=subject, metadata=metadata, attachments=attachments
    )


def header_text(message: EmailMessage, name: str, main: MIMEPart | None) -> str:
    try:
        text = str(message.get(name, ""))
        if any(character == "\ufffd" or "\ud800" <= character <= "\udfff" for character in text):
            text = "".join(decode_header_parts(message, name, main))
        return " ".join(text.split())
    except Exception:
        return ""


def decode_header_parts(message: EmailMessage, name: str, main: MIMEPart | None) -> Iterator[str]:
    """Decode the parts of a header that the email package could not decode.

    Such a header contains bytes beyond ASCII, or bytes that its declared encoding does not have.
    """
    raw = next(value for key, value in message.raw_items() if key.lower() == name.lower())
    data, charset = text_bytes(main) if main is not None and not raw.isascii() else (b"", None)
    text = decode_like_body(raw.encode("utf-8", "surrogateescape"), data, charset)
    for part, encoding in decode_header(text):
        if isinstance(part, str):
            yield part
        elif encoding is None:
            yield part.decode("raw-unicode-escape")
        else:
            yield decode(part, encoding)


def decode_like_body(header: bytes, body: bytes, charset: str | None) -> str:
    """Decode a header with the encoding of the body, if the header fits it.

    A header by itself is too short to detect its encoding.
    """
    line = b" ".join(header.split())
    text = decode(line + b"\n" + body, charset).split("\n")[0]
    return decode(line) if "\ufffd" in text else text


def body_text(part: MIMEPart | None) -> str:
    if part is None:
        return ""
    data, charset = text_bytes(part)
    if part.get_content_type() == "text/html":
        # The libraries are loaded for the few mails that need them.
        from penstock_apps.knowledge.extract.html import read_page

        return read_page(decode(data, charset, declared_encoding(data)))[0]
    return decode(data, charset).strip()


def text_bytes(part: MIMEPart) -> tuple[bytes, str | None]:
    """Return the bytes of a text part, and the encoding that it declares.

    Stray NULs are removed, because they could make the text look like UTF-16.
    """
    data, charset = part_bytes(part)
    is_wide = encoding_of_mark(data) or (charset or "").startswith(WIDE_ENCODINGS)
    return data if is_wide else data.replace(b"\x00", b""), charset


def part_bytes(part: MIMEPart) -> tuple[bytes, str | None]:
    """Return the bytes of a part, and the encoding that it declares."""
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b"", part.get_content_charset()


def list_attachments(
    message: EmailMessage, main: MIMEPart | None, limits: ReadLimits
) -> tuple[str, tuple[Attachment, ...]]:
    """Return a line of text that names the attachments, and the attachments to read.

    The line also says why the other attachments are not read.
    """
    parts = leaf_parts(message)
    first_parts = [*islice(attachment_parts(parts, main), limits.attachments + MAX_UNREAD_NAMED)]
    names = [attachment_name(part) for part in first_parts]
    read = 0 if limits.nested == 0 else limits.attachments
    reason = (
        "its mail is nested too deep in other mails"
        if limits.nested == 0
        else f"only {limits.attachments} of a mail are"
    )
    entries = names[:read] + [f"{name} (not read: {reason})" for name in names[read:]]
    # Other parts are only counted, because examining a part takes as long as reading it.
    if rest := sum(part is not main for part in parts):
        entries.append(f"and {rest:,} more parts of the mail")
    attachments = tuple(
        attachment_of(part, name) for part, name in zip(first_parts[:read], names, strict=False)
    )
    return ("Attachments: " + ", ".join(entries) if entries else ""), attachments


def attachment_parts(parts: Iterator[MIMEPart], main: MIMEPart | None) -> Iterator[MIMEPart]:
    for part in parts:
        is_mail = part.get_content_type() == "message/rfc822"
        # A picture within the text is part of its layout, and no attachment.
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


# A gzip file is read as the file in it.


def read_gzip(path: Path, name: str, limits: ReadLimits, charset: str | None = None) -> Extracted:
    plausible_bytes = max(10 * MEGABYTE, path.stat().st_size * limits.ratio)
    bytes_left = min(limits.inflated, limits.bytes, plausible_bytes)
    # The folder is beside the file, so that it is swept with it if this process is killed.
    with TemporaryDirectory(dir=path.parent) as folder:
        inside = Path(folder) / "inside"
        with gzip.open(path) as packed, inside.open("wb") as file:
            while block := packed.read(BLOCK_BYTES):
                bytes_left -= len(block)
                if bytes_left < 0:
                    raise inflates_error()
                file.write(block)
        # If gzip files were nested, a few bytes could become an enormous file.
        if sniff(inside, inner_name(name)) == "gzip":
            raise inflates_error()
        media_type = f"text/plain; charset={charset}" if charset else None
        return extract(inside, inner_name(name), limits=limits, media_type=media_type)


def inner_name(name: str) -> str:
    lower = name.lower()
    return name[:-3] if lower.endswith(".gz") else name


# Files of Office before 2007 are not read. Newer ones with a password are in the same container.

# The container's name for the content of a document with a password.
LOCKED_STREAM = "EncryptedPackage".encode("utf-16-le")


def read_ole(path: Path, name: str, limits: ReadLimits) -> Extracted:
    if LOCKED_STREAM in path.read_bytes():
        raise locked_error()
    raise Skipped(
        "unsupported",
        "Files of Office before 2007 and of Outlook are not read. "
        "Save it as .docx, .xlsx, .pptx, .eml or PDF.",
    )
