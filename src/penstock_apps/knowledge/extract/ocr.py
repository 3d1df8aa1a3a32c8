"""Read pictures of text with the program tesseract, if it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from penstock_apps.knowledge.errors import Skipped, Unreadable
from penstock_apps.knowledge.extract.limits import ReadLimits
from penstock_apps.knowledge.text import Extracted, Section

if TYPE_CHECKING:
    import pypdfium2

TIMEOUT_S = 60.0
DOTS_PER_INCH = 200
# A poster at that resolution would be more than tesseract accepts.
MAX_DOTS = 8_000


def read(path: Path, name: str, limits: ReadLimits) -> Extracted:
    if not available():
        raise Skipped(
            "unsupported",
            "Text in pictures is read by tesseract, which is not installed here. "
            "Install it (Debian: apt-get install tesseract-ocr) and retry.",
        )
    return Extracted((Section(run_tesseract([str(path)], None)),), kind="image")


@cache
def available() -> bool:
    return shutil.which("tesseract") is not None


def read_page(document: pypdfium2.PdfDocument, number: int) -> str:
    """Render a page as a picture, and return the text on it."""
    content = document[number]
    try:
        dots = min(DOTS_PER_INCH, MAX_DOTS * 72 / max(content.get_size()))
        bitmap = content.render(scale=dots / 72, grayscale=True)
        try:
            lines = bytes(bitmap.buffer)
            if bitmap.stride != bitmap.width:
                rows = range(0, bitmap.stride * bitmap.height, bitmap.stride)
                lines = b"".join(lines[row : row + bitmap.width] for row in rows)
            # PGM is so simple a format that no library is needed to write it.
            picture = b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + lines
        finally:
            bitmap.close()
    finally:
        content.close()
    return run_tesseract(["stdin"], picture, "--dpi", str(round(dots)))


def run_tesseract(source: list[str], picture: bytes | None, *options: str) -> str:
    try:
        done = subprocess.run(
            ["tesseract", *source, "stdout", *options],
            input=picture,
            stdin=subprocess.DEVNULL if picture is None else None,
            capture_output=True,
            timeout=TIMEOUT_S,
            # Other jobs use the same processor.
            env=os.environ | {"OMP_THREAD_LIMIT": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unreadable(
            "no_text",
            f"The picture took tesseract longer than {TIMEOUT_S:.0f} s. Send a smaller one.",
        ) from None
    if done.returncode != 0:
        raise Unreadable("broken", "The picture cannot be read. Save it as PNG and send that.")
    return done.stdout.decode("utf-8", "replace")
