"""Markdown as it is, without its front matter."""

from __future__ import annotations

import re
from pathlib import Path

from penstock_apps.knowledge.extract.detect import decode
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.text import Extracted, Section

FRONT = re.compile(r"\A---[ \t]*\n(?=[A-Za-z][\w-]*:)(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(\S.*)$", re.MULTILINE)
FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1|\Z)", re.DOTALL | re.MULTILINE)
ATX = re.compile(r"^#[ \t]+(\S.*)$", re.MULTILINE)
SETEXT = re.compile(r"^(\S.*)\n=+[ \t]*$", re.MULTILINE)


def read(path: Path, name: str, limits: Limits, charset: str | None = None) -> Extracted:
    text = decode(path.read_bytes(), charset).replace("\r\n", "\n")
    metadata = {}
    if front := FRONT.match(text):
        entries = ENTRY.findall(front[1])
        metadata = {key.lower(): value.rstrip(" \t").strip("'\"") for key, value in entries}
        text = text[front.end() :]
    title = metadata.pop("title", None) or heading(text)
    return Extracted((Section(text),), kind="markdown", title=title, metadata=metadata)


def heading(text: str) -> str | None:
    """The first heading of the first level; a comment in a block of code is none."""
    prose = FENCED.sub("", text[:50_000])
    found = ATX.search(prose) or SETEXT.search(prose)
    return found[1].rstrip(" \t#") if found else None
