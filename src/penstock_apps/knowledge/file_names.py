"""The name of a file as its sender has it, made harmless: for people to read, never to open."""

from __future__ import annotations

import re
from hashlib import sha256
from unicodedata import category, normalize

MAX_NAME_BYTES = 1024
MAX_SUFFIX_BYTES = 32
UNNAMED = "unnamed"

# These turn the direction of what stands after them: `exe.txt` may be read for `txt.exe`.
DIRECTION_MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
WINDOWS_DRIVE = re.compile(r"[A-Za-z]:")


def display_name(raw: str, unnamed: str = UNNAMED) -> str:
    """`folder/file.pdf` stays; what leads out of a folder or cannot be shown goes.

    assert shown_name("..\\\\..\\\\Windows\\\\win.ini") == "Windows/win.ini"
    """
    text = DIRECTION_MARKS.sub("", normalize("NFC", raw)).replace("\\", "/")
    text = "".join(letter for letter in text if not _is_control(letter))
    steps = [step.strip() for step in WINDOWS_DRIVE.sub("", text, count=1).split("/")]
    steps = [step for step in steps if step.strip(".")]
    return _shorten(steps) if steps else unnamed


def is_displayable(text: str) -> bool:
    """Whether a text can be shown to people as it is."""
    return DIRECTION_MARKS.search(text) is None and not any(map(_is_control, text))


def _is_control(letter: str) -> bool:
    return category(letter) in ("Cc", "Cs", "Zl", "Zp")


def _shorten(steps: list[str]) -> str:
    """Two long names that differ stay two: a piece of a hash stands for what was cut off."""
    whole = "/".join(steps)
    if len(whole.encode()) <= MAX_NAME_BYTES:
        return whole
    mark = f"…{sha256(whole.encode()).hexdigest()[:12]}"
    stem, dot, ending = steps[-1].rpartition(".")
    if not stem or len(ending.encode()) > MAX_SUFFIX_BYTES:
        stem, dot, ending = steps[-1], "", ""
    tail = f"{mark}{dot}{ending}"
    folders = "/".join(steps[:-1])
    start = f"{folders}/{stem}" if folders else stem
    return _cut(start, MAX_NAME_BYTES - len(tail.encode())) + tail


def _cut(text: str, most_bytes: int) -> str:
    return text.encode()[:most_bytes].decode(errors="ignore")
