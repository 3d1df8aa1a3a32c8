"""Edits of a manual, by a seed: what they change is all that may be embedded again."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from pathlib import Path

from penstock_apps.knowledge.chunk import Chunking, split
from penstock_apps.knowledge.extract import extract

SEED = 8
PARAGRAPH = re.compile(r"<p>[^<]{40,}</p>")
INSERTED = "<p>Edition {number} adds a paragraph here, and says so for whoever looks for it.</p>"


def edit(folder: Path, share: float) -> int:
    """Insert a paragraph into so many of the files, change one and remove one; in how many."""
    rng, changed = random.Random(SEED), 0
    for number, file in enumerate(sorted(folder.rglob("*.html"))):
        text = file.read_text(errors="replace")
        places = list(PARAGRAPH.finditer(text))
        if len(places) < 3 or rng.random() >= share:
            continue
        insert, change, remove = sorted(rng.sample(places, 3), key=lambda place: place.start())
        text = text[: remove.start()] + text[remove.end() :]
        text = text[: change.end() - 4] + f" As of edition {number}.</p>" + text[change.end() :]
        text = text[: insert.start()] + INSERTED.format(number=number) + text[insert.start() :]
        file.write_text(text)
        changed += 1
    return changed


def hashes(folder: Path) -> set[bytes]:
    """Of all that would be embedded."""
    return set(_hashes(sorted(folder.rglob("*.html"))))


def _hashes(files: Iterable[Path]) -> Iterable[bytes]:
    for file in files:
        yield from (piece.hash for piece in split(extract(file, file.name), Chunking()))
