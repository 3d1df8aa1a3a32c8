"""Text as every reader leaves it: printable, storable, the same however it was laid out."""

from __future__ import annotations

import re
from functools import cache
from unicodedata import combining, normalize

from penstock_apps.knowledge.file_names import DIRECTION_MARKS

# What Postgres refuses (NUL), and what nobody sees.
INVISIBLE = "\x00-\x08\x0e-\x1f\x7f\xad\u200b\u200e\u200f\u2060\ufeff\ufffe\uffff"
# Halves of characters: they cannot be encoded.
SURROGATES = "\ud800-\udfff"
BREAKS = "\r\x0b\x0c\x85\u2028\u2029"
# To a search all spaces are the same.
SPACES = "\xa0\u2000-\u200a\u202f\u205f\u3000"
# Accents that follow their letter, and letters made of parts.
COMPOSED = "\u0300-\u036f\u1100-\u11ff\u2126\u212a\u212b"

# Most text has none of them: one look is all it costs.
MOST_MARKS = 30
ODD = re.compile(f"[{INVISIBLE}{SURROGATES}{BREAKS}{SPACES}{COMPOSED}]")
REPLACED = (
    (re.compile(f"\r\n|[{BREAKS}]"), "\n"),
    (re.compile(f"[{INVISIBLE}]"), ""),
    (re.compile(f"[{SURROGATES}]"), "\ufffd"),
    (re.compile(f"[{SPACES}]"), " "),
)
TRAILING = re.compile("[ \t]+\n")
EMPTY_LINES = re.compile("\n{3,}")


@cache
def marks() -> re.Pattern[str]:
    """More marks on one letter than any script has: to put them in order takes their square."""
    mark = "".join(chr(code) for code in range(0x300, 0x20000) if combining(chr(code)))
    return re.compile(f"([{mark}]{{{MOST_MARKS}}})[{mark}]+")


def tidied(text: str) -> str:
    if ODD.search(text):
        for pattern, instead in REPLACED:
            text = pattern.sub(instead, text)
        text = normalize("NFC", marks().sub(r"\1", text))
    if " \n" in text or "\t\n" in text:
        text = TRAILING.sub("\n", text)
    if "\n\n\n" in text:
        text = EMPTY_LINES.sub("\n\n", text)
    return text.strip("\n").rstrip()


def line(value: str | None) -> str | None:
    """A title or a name on one line, of a length that can be shown."""
    return " ".join(DIRECTION_MARKS.sub("", tidied(value or "")).split())[:500] or None
