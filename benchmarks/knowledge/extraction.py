"""The text of PDF files: as we read them, and by pypdfium2 alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from statistics import median
from typing import Any

import pypdfium2

from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import extract

ROUNDS = 3


def measure(files: Sequence[Path]) -> dict[str, Any]:
    """Processor seconds, in turn, the medians of a few rounds; and how many were read."""
    took: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(ROUNDS):
        took["ours"].append(_seconds(_ours, files))
        took["bare"].append(_seconds(_bare, files))
    ours, bare = median(took["ours"]), median(took["bare"])
    return {
        "files": len(files),
        "rounds": ROUNDS,
        "ours_per_minute": 60 * len(files) / ours,
        "bare_per_minute": 60 * len(files) / bare,
        "ratio": bare / ours,
    }


def _seconds(read: Callable[[Path], None], files: Sequence[Path]) -> float:
    began = time.process_time()
    for file in files:
        read(file)
    return time.process_time() - began


def _ours(file: Path) -> None:
    # Of a file without text bare pypdfium2 opens all pages, too.
    with suppress(Unreadable):
        extract(file, file.name)


def _bare(file: Path) -> None:
    with closing(pypdfium2.PdfDocument(file)) as document:
        for page in document:
            with closing(page), closing(page.get_textpage()) as text:
                text.get_text_bounded()
