"""E-mail: who wrote what to whom, and what was attached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from email import message_from_binary_file
from email.header import decode_header
from email.message import EmailMessage, MIMEPart
from email.policy import EmailPolicy
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from penstock.net.media_type import media_type
from penstock_apps.knowledge.extract.detect import declared_in, decode, marked
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.shown import shown_name
from penstock_apps.knowledge.text import Attachment, Extracted, Section

HEADERS = ("From", "To", "Cc", "Date")
# To read a header takes the square of its length.
LONGEST_HEADER = 4_000
# Those that only say how a part is written are read several times.
LONGEST_OTHER = 1_000
# Encodings in which most texts have NULs.
WIDE = ("utf-16", "utf-32", "utf16", "utf32")
# Attachments beyond those that are read which the text still names.
NAMED = 10


class Bounded(EmailPolicy):
    """Cuts headers that nobody reads to the end, of a mail and of its parts."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        is_shown = name.title() in (*HEADERS, "Subject")
        return name, value[: LONGEST_HEADER if is_shown else LONGEST_OTHER]

    def header_fetch_parse(self, name: str, value: str) -> Any:
        return parsed(name, value)


# Each look at a header parses it, and those of many parts are the same.
@lru_cache(maxsize=100)
def parsed(name: str, value: str) -> Any:
    """A header; one that breaks its parser is read up to its parameters, or not at all."""
    for text in (value, value.partition(";")[0]):
        # Headers of spam are made to break who reads them.
        with suppress(Exception):
            return EmailPolicy().header_fetch_parse(name, text)
    return EmailPolicy().header_fetch_parse(name, "")


# What was read is written as it was: headers that are folded anew would be parsed again.
POLICY = Bounded(refold_source="none")


def read(path: Path, name: str, limits: Limits) -> Extracted:
    with path.open("rb") as file:
        message = message_from_binary_file(file, policy=POLICY)
    assert isinstance(message, EmailMessage)
    main = message.get_body(preferencelist=("plain", "html"))
    headers = {name: said for name in HEADERS if (said := header(message, name, main))}
    subject = header(message, "Subject", main)
    text = body(main)
    names, attachments = attached(message, main, limits)
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


def header(message: EmailMessage, name: str, main: MIMEPart | None) -> str:
    try:
        said = str(message.get(name, ""))
        if any(character == "\ufffd" or "\ud800" <= character <= "\udfff" for character in said):
            said = "".join(decoded(message, name, main))
        return " ".join(said.split())
    except Exception:
        return ""


def decoded(message: EmailMessage, name: str, main: MIMEPart | None) -> Iterator[str]:
    """A header in bytes beyond ASCII, or in an encoding that holds more than it is declared to."""
    raw = next(value for key, value in message.raw_items() if key.lower() == name.lower())
    data, charset = words(main) if main is not None and not raw.isascii() else (b"", None)
    text = alike(raw.encode("utf-8", "surrogateescape"), data, charset)
    for part, encoding in decode_header(text):
        if isinstance(part, str):
            yield part
        elif encoding is None:
            yield part.decode("raw-unicode-escape")
        else:
            yield decode(part, encoding)


def alike(header: bytes, body: bytes, charset: str | None) -> str:
    """A header is short: it is in the encoding of the body, if that fits."""
    line = b" ".join(header.split())
    text = decode(line + b"\n" + body, charset).split("\n")[0]
    return decode(line) if "\ufffd" in text else text


def body(part: MIMEPart | None) -> str:
    if part is None:
        return ""
    data, charset = words(part)
    if part.get_content_type() == "text/html":
        # Its libraries are loaded for the few that need them.
        from penstock_apps.knowledge.extract.html import page

        return page(decode(data, charset, declared_in(data)))[0]
    return decode(data, charset).strip()


def words(part: MIMEPart) -> tuple[bytes, str | None]:
    """The bytes of a text and its encoding, without stray NULs: they would look like UTF-16."""
    data, charset = content(part)
    is_wide = marked(data) or (charset or "").startswith(WIDE)
    return data if is_wide else data.replace(b"\x00", b""), charset


def content(part: MIMEPart) -> tuple[bytes, str | None]:
    """The bytes of a part, and the encoding that it declares."""
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b"", part.get_content_charset()


def attached(
    message: EmailMessage, main: MIMEPart | None, limits: Limits
) -> tuple[str, tuple[Attachment, ...]]:
    """A line that names the attachments, with why some are not read; and those that are."""
    parts = leaves(message)
    some = [*islice(attachments(parts, main), limits.attachments + NAMED)]
    names = [name_of(part) for part in some]
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
    found = tuple(attachment(part, name) for part, name in zip(some[:read], names, strict=False))
    return ("Attachments: " + ", ".join(told) if told else ""), found


def attachments(parts: Iterator[MIMEPart], main: MIMEPart | None) -> Iterator[MIMEPart]:
    for part in parts:
        is_mail = part.get_content_type() == "message/rfc822"
        # A picture that is shown within the text is part of its looks.
        is_shown = part.get_content_maintype() == "image" and part["Content-ID"] is not None
        is_attached = is_mail or part.is_attachment() or part.get_filename()
        if part is not main and not is_shown and is_attached:
            yield part


def leaves(part: MIMEPart) -> Iterator[MIMEPart]:
    if part.is_multipart() and part.get_content_maintype() == "multipart":
        for inner in part.iter_parts():
            yield from leaves(inner)
    else:
        yield part


def name_of(part: MIMEPart) -> str:
    is_mail = part.get_content_type() == "message/rfc822"
    return shown_name(" ".join((part.get_filename() or ("mail.eml" if is_mail else "")).split()))


def attachment(part: MIMEPart, name: str) -> Attachment:
    if part.get_content_type() == "message/rfc822":
        [inner] = part.iter_parts()
        return Attachment(name, "message/rfc822", inner.as_bytes())
    data, charset = content(part)
    return Attachment(name, media_type(part.get_content_type(), charset), data)
