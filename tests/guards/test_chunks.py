"""Documents are cut as they were kept: another cut would embed each stored text again.

Scans are left out: what is read in them differs with the version of the program that reads.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from penstock_apps.knowledge.chunk import Chunking, split
from penstock_apps.knowledge.extract import extract
from penstock_apps.knowledge.text import Extracted
from tests.guards.kept import compare
from tests.knowledge.chunk.manual import manual

FILES = Path(__file__).parents[1] / "knowledge" / "files"
SCANS = {"scan.png", "scan.pdf", "locked.pdf"}
SIZES = (128, 512)


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
