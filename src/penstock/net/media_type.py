"""Check and normalise the media type that a sender declares for a file."""

from __future__ import annotations

import re

MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")
CHARSET = re.compile(r"[a-z0-9_.:+-]{1,40}")
UNKNOWN = "application/octet-stream"


def media_type(kind: str, charset: str | None) -> str:
    """Return the declared media type, with the declared encoding unless that is UTF-8.

    A header may contain any text. Text that is not a media type becomes `application/octet-stream`.

    assert media_type("Text/Plain", "KOI8-R") == "text/plain; charset=koi8-r"
    """
    kind, charset = kind.strip().lower(), (charset or "").strip().lower()
    if not MEDIA_TYPE.fullmatch(kind):
        return UNKNOWN
    shows_charset = CHARSET.fullmatch(charset) and charset not in ("utf-8", "utf8")
    return f"{kind}; charset={charset}" if shows_charset else kind
