"""What a sender says that a file is, as it is stored: any text may stand in a header."""

from __future__ import annotations

import re

KIND = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")
CHARSET = re.compile(r"[a-z0-9_.:+-]{1,40}")
UNKNOWN = "application/octet-stream"


def media_type(kind: str, charset: str | None) -> str:
    """The kind, with its encoding if that is declared and not UTF-8.

    assert media_type("Text/Plain", "KOI8-R") == "text/plain; charset=koi8-r"
    """
    kind, charset = kind.strip().lower(), (charset or "").strip().lower()
    if not KIND.fullmatch(kind):
        return UNKNOWN
    declared = CHARSET.fullmatch(charset) and charset not in ("utf-8", "utf8")
    return f"{kind}; charset={charset}" if declared else kind
