"""The files that a command names, by the folders they are known by."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import NamedTuple

from penstock.cli.errors import CommandError


class Found(NamedTuple):
    """A file, and its path in the folder that it is known by."""

    path: str
    file: Path
    size: int


class Hashed(NamedTuple):
    """A file with the SHA-256 of its content."""

    path: str
    file: Path
    size: int
    digest: bytes


def find(paths: Sequence[Path]) -> dict[Path, list[Found]]:
    """The files of each folder. A file that is named itself belongs to the folder it is in.

    Hidden files and folders are left out, unless they are named.
    """
    found: dict[Path, dict[str, Found]] = {}
    for path in paths:
        place = path.absolute()
        if place.is_dir():
            root, files = place, walk(place)
        elif place.is_file():
            root, files = place.parent, iter([place])
        else:
            raise CommandError(f"There is no file or folder {path}.", path=str(path))
        known = found.setdefault(root, {})
        for file in files:
            name = str(file.relative_to(root))
            known[name] = Found(name, file, file.stat().st_size)
    return {root: list(files.values()) for root, files in found.items()}


def walk(folder: Path) -> Iterator[Path]:
    """All files below a folder, in order."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(place) / name
            if not name.startswith(".") and file.is_file():
                yield file


def hashed(files: Iterable[Found]) -> list[Hashed]:
    """Read each file once."""
    return [Hashed(*each, _digest(each.file)) for each in files]


def _digest(file: Path) -> bytes:
    with file.open("rb") as opened:
        return file_digest(opened, "sha256").digest()
