"""Text files as they are; source code as a block of code, so that no comment becomes a heading."""

from __future__ import annotations

import re
from pathlib import Path

from penstock_apps.knowledge.extract.detect import SUFFIXES, declared_in, decode
from penstock_apps.knowledge.extract.limits import Limits
from penstock_apps.knowledge.text import Extracted, Section

FENCE = re.compile("^[ \t]*(`{3,})", re.MULTILINE)


def read(path: Path, name: str, limits: Limits, charset: str | None = None) -> Extracted:
    data = path.read_bytes()
    text = decode(data, charset, declared_in(data))
    suffix = Path(name).suffix.lower().removeprefix(".")
    if SUFFIXES.get(suffix) == "code" and text.strip():
        return Extracted((Section(block(text, suffix)),), kind="code")
    return Extracted((Section(text),), kind="text")


def block(code: str, language: str) -> str:
    """Code between fences longer than any within."""
    longest = max((len(fence) for fence in FENCE.findall(code)), default=2)
    fence = "`" * (longest + 1)
    return "\n".join([fence + language, code.strip("\n"), fence])
