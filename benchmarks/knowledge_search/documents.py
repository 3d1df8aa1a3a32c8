"""Real documents: manuals that Debian has packaged, cut as they would be for search."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.comparison.environment import FOLDER
from penstock_apps.knowledge.chunk import Chunking, split
from penstock_apps.knowledge.errors import Unreadable
from penstock_apps.knowledge.extract import extract
from penstock_apps.knowledge.text import Piece

DOCUMENTS = FOLDER / "documents"


def unpacked(package: str) -> Path:
    """The folder with the files of a package; nothing is installed."""
    folder = DOCUMENTS / package
    if not folder.is_dir():
        DOCUMENTS.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-qq", package], cwd=DOCUMENTS, check=True)
        [archive] = DOCUMENTS.glob(f"{package}_*.deb")
        subprocess.run(["dpkg", "-x", str(archive), str(folder)], check=True)
    return folder / "usr/share/doc"


def read(folder: Path, pattern: str) -> Iterator[tuple[str, list[Piece]]]:
    """The name of each file that matches, with its pieces."""
    for path in sorted(folder.glob(pattern)):
        try:
            pieces = split(extract(path, path.name), Chunking())
        except Unreadable:
            continue
        if pieces:
            yield path.relative_to(folder).as_posix(), pieces
