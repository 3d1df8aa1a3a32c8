"""What a file is: by its first bytes, then its name, then what its sender says."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from penstock_apps.knowledge.extract.encoding import binary

HEAD_BYTES = 4096

SIGNATURES = (
    (b"{\\rtf", "rtf"),
    (b"\x1f\x8b", "gzip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"\x89PNG\r\n\x1a\n", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"II*\x00", "image"),
    (b"MM\x00*", "image"),
    (b"BM", "image"),
)

# What is in a zip tells which document it is.
FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}
# A workbook that is no XML.
BINARY_WORKBOOK = "xl/workbook.bin"
MIMETYPES = {
    b"application/epub+zip": "epub",
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
    b"application/vnd.oasis.opendocument.presentation": "odp",
}

CODE = """bash c cc cfg conf cpp cs cxx go h hpp ini java jl js jsx kt lua m pl php ps1 py r rb
rs scala sh sql swift toml ts tsx vb yaml yml zsh"""
SUFFIXES = {
    "csv": "csv",
    "docm": "docx",
    "docx": "docx",
    "eml": "email",
    "epub": "epub",
    "htm": "html",
    "html": "html",
    "ipynb": "notebook",
    "json": "json",
    "jsonl": "jsonl",
    "markdown": "markdown",
    "md": "markdown",
    "mht": "email",
    "mhtml": "email",
    "mdx": "markdown",
    "ndjson": "jsonl",
    "odp": "odp",
    "ods": "ods",
    "odt": "odt",
    "pdf": "pdf",
    "pptm": "pptx",
    "pptx": "pptx",
    "rtf": "rtf",
    "tab": "csv",
    "tsv": "csv",
    "xhtml": "html",
    "xlsm": "xlsx",
    "xlsx": "xlsx",
} | dict.fromkeys(CODE.split(), "code")

MEDIA_TYPES = {
    "application/json": "json",
    "application/pdf": "pdf",
    "application/x-ndjson": "jsonl",
    "application/xhtml+xml": "html",
    "message/rfc822": "email",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/tab-separated-values": "csv",
}

# Kinds that any text editor shows: what is no text is none of them.
TEXTS = frozenset(
    {"code", "csv", "email", "html", "json", "jsonl", "markdown", "notebook", "rtf", "text"}
)
# Names of plain text, which what the sender says may still make more of.
PLAIN = frozenset({"log", "rst", "text", "txt"})

# Text to a machine, nothing to a reader; so is PostScript, whatever its name.
PRINTED = (b"%!PS", b"\x1b%-12345X")
NO_PROSE = frozenset({"css", "lock", "map", "svg"})

HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html)\b", re.I | re.S
)
# The first line of a mail, maybe one of a mailbox.
HEADER = re.compile(rb"\s*(?:From |[!-9;-~]+:)")


def sniff(path: Path, name: str, media_type: str | None = None) -> str | None:
    """The kind of a file, or None for one that is not read here."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    suffix = Path(name).suffix.lower().removeprefix(".")
    named = SUFFIXES.get(suffix)
    return by_content(path, head, named) or by_name(head, suffix, named, media_type)


def named_as_text(name: str) -> bool:
    suffix = Path(name).suffix.lower().removeprefix(".")
    return suffix in PLAIN or SUFFIXES.get(suffix) in TEXTS


def by_content(path: Path, head: bytes, named: str | None) -> str | None:
    """Bytes do not lie, names do; but a text may begin with anything."""
    if b"%PDF-" in head[:1024] and named in (None, "pdf"):
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        return inside_zip(path)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image"
    for signature, kind in SIGNATURES:
        if head.startswith(signature) and (len(signature) > 2 or binary(head)):
            return kind
    return None


def inside_zip(path: Path) -> str | None:
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
            if "mimetype" in names:
                with archive.open("mimetype") as file:
                    return MIMETYPES.get(file.read(100).strip().removesuffix(b"-template"))
    except (BadZipFile, OSError, NotImplementedError, RuntimeError, ValueError):
        return None
    if BINARY_WORKBOOK in names:
        return None
    found = (FOLDERS.get(name[: name.find("/") + 1]) for name in names)
    return next((kind for kind in found if kind), None)


def by_name(head: bytes, suffix: str, named: str | None, media_type: str | None) -> str | None:
    if suffix in NO_PROSE or head.startswith(PRINTED):
        return None
    if named not in ("code", "email", "markdown") and HTML.match(head):
        return "html"
    if named and named not in TEXTS:
        return named
    said = MEDIA_TYPES.get((media_type or "").partition(";")[0].strip().lower(), "text")
    kind = named or said
    # Real mails have a NUL here and there.
    is_mail = kind == "email" and HEADER.match(head)
    return None if binary(head.replace(b"\x00", b"") if is_mail else head) else kind
