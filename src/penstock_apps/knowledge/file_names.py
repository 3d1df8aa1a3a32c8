"""Make the name of an uploaded file safe to display. Such a name is never opened as a path."""

from __future__ import annotations

import re
from hashlib import sha256
from unicodedata import category, normalize

MAX_NAME_BYTES = 1024
MAX_SUFFIX_BYTES = 32
UNNAMED = "unnamed"

# These change the writing direction, so that `txt.exe` can look like `exe.txt`.
DIRECTION_MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
WINDOWS_DRIVE = re.compile(r"[A-Za-z]:")


def display_name(raw: str, unnamed: str = UNNAMED) -> str:
    """Return a path without control characters, and without parts such as `..`.

    assert display_name("..\\\\..\\\\Windows\\\\win.ini") == "Windows/win.ini"
    """
    text = DIRECTION_MARKS.sub("", normalize("NFC", raw)).replace("\\", "/")
    text = "".join(letter for letter in text if not _is_control(letter))
    steps = [step.strip() for step in WINDOWS_DRIVE.sub("", text, count=1).split("/")]
    steps = [step for step in steps if step.strip(".")]
    return _shorten(steps) if steps else unnamed


def is_displayable(text: str) -> bool:
    """Return whether a text can be displayed as it is."""
    return DIRECTION_MARKS.search(text) is None and not any(map(_is_control, text))


def _is_control(letter: str) -> bool:
    return category(letter) in ("Cc", "Cs", "Zl", "Zp")


def _shorten(steps: list[str]) -> str:
    """Shorten a long path. A part of its hash keeps different long names different."""
    whole = "/".join(steps)
    if len(whole.encode()) <= MAX_NAME_BYTES:
        return whole
    digest = f"…{sha256(whole.encode()).hexdigest()[:12]}"
    stem, dot, suffix = steps[-1].rpartition(".")
    if not stem or len(suffix.encode()) > MAX_SUFFIX_BYTES:
        stem, dot, suffix = steps[-1], "", ""
    tail = f"{digest}{dot}{suffix}"
    folders = "/".join(steps[:-1])
    start = f"{folders}/{stem}" if folders else stem
    return _cut(start, MAX_NAME_BYTES - len(tail.encode())) + tail


def _cut(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode(errors="ignore")
