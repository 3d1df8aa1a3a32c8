"""Bytes of a text file whose encoding nobody names."""

from __future__ import annotations

import codecs

# The longer marks first: UTF-32's begins with UTF-16's.
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROLS = bytes(set(range(32)) - set(b"\t\n\x0b\x0c\r\x1b"))


def decode(data: bytes, said: str | None = None) -> str:
    """UTF-8 where it holds; else what the file says of itself; else what Windows wrote."""
    if encoding := marked(data) or without_mark(data):
        return data.decode(encoding, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return other(data, said)


def other(data: bytes, said: str | None) -> str:
    # A file of UTF-8 with a few broken bytes is still UTF-8: the rest must not become gibberish.
    mended = data.decode("utf-8", "replace")
    wide = sum(character > "\x7f" for character in mended)
    if mended.count("\ufffd") * 10 < wide:
        return mended
    for encoding in (said, "cp1252"):
        try:
            if encoding and codecs.lookup(encoding).name not in ("utf-8", "iso8859-1"):
                return data.decode(encoding)
        except (LookupError, UnicodeDecodeError):
            continue
    return data.decode("latin-1")


def marked(data: bytes) -> str | None:
    return next((encoding for mark, encoding in MARKS if data.startswith(mark)), None)


def without_mark(data: bytes) -> str | None:
    """UTF-16 has a NUL beside each letter of Latin text, always on the same side."""
    sample = data[:2000]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd > len(sample) * 0.3 and even < len(sample) * 0.05:
        return "utf-16-le"
    if even > len(sample) * 0.3 and odd < len(sample) * 0.05:
        return "utf-16-be"
    return None


def binary(data: bytes) -> bool:
    """Whether these bytes are no text in any encoding that is read here."""
    if marked(data) or without_mark(data):
        return False
    return b"\x00" in data or len(data) - len(data.translate(None, CONTROLS)) > len(data) * 0.02
