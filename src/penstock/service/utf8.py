"""Whether bytes of a client are text."""

from __future__ import annotations


def is_utf8(text: bytes) -> bool:
    """Whether these bytes are text in UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
