"""E-mail: who wrote what to whom, and the names of what was attached."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_binary_file
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

from penstock_apps.knowledge.extract.encoding import decode
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.text import Extracted, Section

HEADERS = ("From", "To", "Cc", "Date")


def read(path: Path, name: str, limits: Limits) -> Extracted:
    with path.open("rb") as file:
        message = message_from_binary_file(file, policy=default)
    headers = {name: said for name in HEADERS if (said := header(message, name))}
    subject = header(message, "Subject")
    text = "\n\n".join(
        filter(
            None,
            [
                f"# {subject}" if subject else "",
                "\n".join(f"{name}: {said}" for name, said in headers.items()),
                body(message),
                attached(message),
            ],
        )
    )
    metadata = {name.lower(): said for name, said in headers.items()}
    return Extracted((Section(text),), kind="email", title=subject, metadata=metadata)


def header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    # Headers of spam are made to break who reads them.
    except Exception:
        return ""


def body(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    data = part.get_payload(decode=True)
    said = part.get_content_charset()
    text = decode(data if isinstance(data, bytes) else b"", said)
    if part.get_content_type() == "text/html":
        # Its libraries are loaded for the few that need them.
        from penstock_apps.knowledge.extract.html import page

        return page(text)[0]
    return text.strip()


def attached(message: EmailMessage) -> str:
    names = [*names_of(message)]
    return "Attachments: " + ", ".join(names) if names else ""


def names_of(message: EmailMessage) -> Iterator[str]:
    for part in message.iter_attachments():
        if name := part.get_filename():
            yield " ".join(name.split())
