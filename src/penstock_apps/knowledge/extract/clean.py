"""Normalise characters and white space of extracted text, so that it can be stored and shown."""

from __future__ import annotations

import re
from functools import cache
from unicodedata import combining, normalize

from penstock_apps.knowledge.file_names import DIRECTION_MARKS

# Postgres refuses NUL. Nobody sees the others.
INVISIBLE = "\x00-\x08\x0e-\x1f\x7f\xad\u200b\u200e\u200f\u2060\ufeff\ufffe\uffff"
# These are halves of characters, which cannot be encoded.
SURROGATES = "\ud800-\udfff"
BREAKS = "\r\x0b\x0c\x85\u2028\u2029"
# A search treats all spaces alike.
SPACES = "\xa0\u2000-\u200a\u202f\u205f\u3000"
# Accents that follow their letter, and letters that consist of parts.
COMPOSED = "\u0300-\u036f\u1100-\u11ff\u2126\u212a\u212b"

MAX_COMBINING_MARKS = 30
# Most texts contain none of these, so they cost a single search.
NEEDS_CLEANING = re.compile(f"[{INVISIBLE}{SURROGATES}{BREAKS}{SPACES}{COMPOSED}]")
REPLACEMENTS = (
    (re.compile(f"\r\n|[{BREAKS}]"), "\n"),
    (re.compile(f"[{INVISIBLE}]"), ""),
    (re.compile(f"[{SURROGATES}]"), "\ufffd"),
    (re.compile(f"[{SPACES}]"), " "),
)
TRAILING = re.compile("[ \t]+\n")
EMPTY_LINES = re.compile("\n{3,}")


@cache
def excess_marks() -> re.Pattern[str]:
    """Return a pattern that finds more combining marks on one letter than any script uses.

    The excess marks are removed, because Unicode normalisation sorts them, in a time that grows
    with the square of their number.
    """
    mark = "".join(chr(code) for code in range(0x300, 0x20000) if combining(chr(code)))
    return re.compile(f"([{mark}]{{{MAX_COMBINING_MARKS}}})[{mark}]+")


def clean_text(text: str) -> str:
    if NEEDS_CLEANING.search(text):
        for pattern, replacement in REPLACEMENTS:
            text = pattern.sub(replacement, text)
        text = normalize("NFC", excess_marks().sub(r"\1", text))
    if " \n" in text or "\t\n" in text:
        text = TRAILING.sub("\n", text)
    if "\n\n\n" in text:
        text = EMPTY_LINES.sub("\n\n", text)
    return text.strip("\n").rstrip()


def clean_line(value: str | None) -> str | None:
    """Return a title or a name on one line of at most 500 characters, or None if it is empty."""
    return " ".join(DIRECTION_MARKS.sub("", clean_text(value or "")).split())[:500] or None
