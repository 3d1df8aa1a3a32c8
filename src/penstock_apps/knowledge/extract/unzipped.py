"""A file that was packed alone: it is read as what is in it."""

from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock_apps.knowledge.extract.archive import BLOCK, inflates
from penstock_apps.knowledge.extract.detect import sniff
from penstock_apps.knowledge.extract.extract import extract
from penstock_apps.knowledge.extract.limits import MEGABYTE, Limits
from penstock_apps.knowledge.text import Extracted


def read(path: Path, name: str, limits: Limits, charset: str | None = None) -> Extracted:
    likely = max(10 * MEGABYTE, path.stat().st_size * limits.ratio)
    most = min(limits.inflated, limits.bytes, likely)
    # Beside it, so that what a killed process leaves of it is swept with the rest.
    with TemporaryDirectory(dir=path.parent) as folder:
        inside = Path(folder) / "inside"
        with gzip.open(path) as packed, inside.open("wb") as file:
            while block := packed.read(BLOCK):
                most -= len(block)
                if most < 0:
                    raise inflates()
                file.write(block)
        # Packed again and again, a few bytes become a world.
        if sniff(inside, inner(name)) == "gzip":
            raise inflates()
        media_type = f"text/plain; charset={charset}" if charset else None
        return extract(inside, inner(name), limits=limits, media_type=media_type)


def inner(name: str) -> str:
    lower = name.lower()
    return name[:-3] if lower.endswith(".gz") else name
