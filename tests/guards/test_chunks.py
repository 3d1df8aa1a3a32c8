"""Documents are cut as they were kept: another cut would embed each stored text again.

Scans are left out: what is read in them differs with the version of the program that reads.
A manual of Debian's is there where benchmarks have fetched it or it is installed:
`.venv/bin/python -m benchmarks.knowledge.corpora postgresql-doc-15`.
"""

import gzip
import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from benchmarks.knowledge.corpora import present
from penstock_apps.knowledge.chunk import Chunking, split
from penstock_apps.knowledge.extract import extract
from penstock_apps.knowledge.text import Extracted
from tests.guards.kept import KEPT, compare
from tests.knowledge.chunk.manual import manual

FILES = Path(__file__).parents[1] / "knowledge" / "files"
SCANS = {"scan.png", "scan.pdf", "locked.pdf"}
SIZES = (128, 512)
MANUAL = "postgresql-doc-15"
KEPT_MANUAL = "chunks_of_manual.txt"
# All 1,167 files take half a minute on a slow machine.
EVERY = 8


def test_documents_are_cut_as_it_was_kept(tmp_path: Path) -> None:
    lines = [
        f"{name}, pieces of {size}:\n{cut(extracted, size)}"
        for name, extracted in documents(tmp_path)
        for size in SIZES
    ]
    compare("chunks.txt", "\n".join(lines) + "\n")


def documents(folder: Path) -> Iterator[tuple[str, Extracted]]:
    for path in sorted(FILES.iterdir()):
        if path.name not in SCANS:
            yield path.name, extract(path, path.name)
    blocks = "\n\n".join(manual(Random(11), chapters=12))
    for name in ("long.md", "long.txt", "long.html"):
        path = folder / name
        paragraphs = f"<h1>Manual</h1><p>{blocks.replace(chr(10) * 2, '</p><p>')}</p>"
        path.write_text(paragraphs if name.endswith("html") else blocks, "utf-8")
        yield name, extract(path, name)


def cut(extracted: Extracted, size: int) -> str:
    """A line a piece: the hash that its embedding is kept under, its page and heading."""
    return "\n".join(
        f"    {piece.hash.hex()[:16]} {piece.page} {piece.heading}"
        for piece in split(extracted, Chunking(size))
    )


def test_a_manual_of_debians_is_cut_as_it_was_kept() -> None:
    """One hash a file, or the kept text would be longer than the manual."""
    place = present(MANUAL)
    # Where documentation is left out, as in images of containers, there is hardly a folder.
    files = sorted((place / "html").rglob("*.html"))[::EVERY] if place else []
    if place is None or not files:
        pytest.skip(f"{MANUAL} is neither fetched nor installed")
    version = version_of(place)
    if not os.environ.get("KEEP") and version != (kept := kept_version()):
        pytest.skip(f"{MANUAL} is here in version {version}, and was kept in {kept}")
    lines = [f"{MANUAL} {version}", *(f"{file.name} {cuts(file)}" for file in files)]
    compare(KEPT_MANUAL, "\n".join(lines) + "\n")


def version_of(place: Path) -> str:
    """As the first line of its changelog says it: `postgresql-15 (15.18-0+deb12u1) …`."""
    changelog = place / "changelog.Debian.gz"
    return gzip.decompress(changelog.read_bytes()).decode().partition("(")[2].partition(")")[0]


def kept_version() -> str:
    return (KEPT / KEPT_MANUAL).read_text("utf-8").split()[1]


def cuts(file: Path) -> str:
    """How many pieces there are, and a hash over all that `cut` tells of them, for each size."""
    extracted = extract(file, file.name)
    return ", ".join(summary(cut(extracted, size).splitlines()) for size in SIZES)


def summary(pieces: Sequence[str]) -> str:
    return f"{len(pieces)} {sha256(chr(10).join(pieces).encode()).hexdigest()[:16]}"
