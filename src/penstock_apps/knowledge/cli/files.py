"""The files that a command names, by the folders they are known by."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Literal, NamedTuple

from penstock.cli.errors import CommandError
from penstock_apps.knowledge.cli.summary import Trouble
from penstock_apps.knowledge.shown import is_harmless

# What an index of Postgres has room for, and some more.
LONGEST = 2000
# What tools make for themselves: nobody's documents.
MADE = ("__pycache__", "node_modules")


class Found(NamedTuple):
    """A file, and its path in the folder that it is known by."""

    path: str
    file: Path


class Hashed(NamedTuple):
    """A file with the size and the SHA-256 of its content."""

    path: str
    file: Path
    size: int
    digest: bytes


class Finding:
    """The files of each folder; what cannot be looked at is told, and the rest goes on.

    A file that is named itself belongs to the folder it is in. Hidden files and folders are left
    out, and what tools make for themselves, unless they are named. Links do not leave the folder,
    unless they are followed: who fills a folder does not choose which other files are read.
    """

    def __init__(self, paths: Sequence[Path], *, follow_links: bool = False) -> None:
        self._follow_links = follow_links
        # Links that lead out of the folders they are in, and were left out.
        self.leading_out: list[str] = []
        self.folders: dict[Path, dict[str, Found]] = {}
        self.troubles: list[Trouble] = []
        # Of the folders: those that were named, and those that could not be looked at as a whole.
        self._named: set[Path] = set()
        self._partial: set[Path] = set()
        for path in paths:
            self._add(path)

    @property
    def total(self) -> int:
        return len(self.troubles) + sum(map(len, self.folders.values()))

    def is_whole(self, folder: Path) -> bool:
        """Whether all that is below a folder was looked at."""
        return folder in self._named and folder not in self._partial

    def _add(self, path: Path) -> None:
        place = place_of(path)
        kind = _kind(place, _shown(str(path)))
        root = place if kind == "folder" else place.parent
        if not is_harmless(str(root)):
            told = _shown(str(root))
            raise CommandError(
                f"The folder {told} has characters in its name that cannot be shown; "
                "give it another one.",
                path=told,
            )
        known = self.folders.setdefault(root, {})
        if kind == "file":
            self._take(known, root, place)
        elif root not in self._named:
            self._named.add(root)
            for file in self._walk(root):
                self._take(known, root, file)

    def _take(self, known: dict[str, Found], root: Path, file: Path) -> None:
        name = str(file.relative_to(root))
        if not is_harmless(name):
            told = "Its name has characters that cannot be shown; give it another one."
            self.troubles.append(Trouble(_shown(name), told))
        elif len(name.encode()) > LONGEST:
            told = f"Its path has more than {LONGEST:,} bytes; name a folder that is nearer."
            self.troubles.append(Trouble(f"…{name[-100:]}", told))
        else:
            known[name] = Found(name, file)

    def _walk(self, folder: Path) -> Iterator[Path]:
        """All files below a folder, in order."""

        def cannot_look(error: OSError) -> None:
            self._partial.add(folder)
            self.troubles.append(Trouble(_shown(str(error.filename)), _why(error)))

        real = os.path.realpath(folder)
        seen = {real}
        for place, folders, names in os.walk(
            folder, onerror=cannot_look, followlinks=self._follow_links
        ):
            wanted = sorted(name for name in folders if not _is_left_out(name))
            folders[:] = [each for each in wanted if self._enters(Path(place, each), seen)]
            for name in sorted(names):
                file = Path(place) / name
                try:
                    if not _is_left_out(name) and file.is_file() and self._takes(file, real):
                        yield file
                except OSError as error:
                    cannot_look(error)

    def _takes(self, file: Path, root: str) -> bool:
        """Whether a file is in its folder, or may be elsewhere."""
        if self._follow_links or not _is_link(file) or _is_below(os.path.realpath(file), root):
            return True
        self.leading_out.append(str(file))
        return False

    def _enters(self, folder: Path, seen: set[str]) -> bool:
        """Whether to look into a folder: into a link if links are followed, but nowhere twice."""
        if not _is_link(folder):
            return True
        real = os.path.realpath(folder)
        if not self._follow_links:
            if not any(_is_below(real, each) for each in seen):
                self.leading_out.append(str(folder))
            return False
        # What is below the root is found without the link, and what is above it has it in it.
        if any(_is_below(real, each) or _is_below(each, real) for each in seen):
            return False
        seen.add(real)
        return True


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:
        return False  # Who looks into it is told why that cannot be.


def _is_below(path: str, root: str) -> bool:
    return os.path.commonpath([path, root]) == root


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name in MADE


def _kind(place: Path, told: str) -> Literal["folder", "file"]:
    try:
        if place.is_dir():
            return "folder"
        if place.is_file():
            return "file"
        is_there = place.exists()
    except OSError as error:
        why = error.strerror or str(error)
        raise CommandError(f"{told} cannot be looked at: {why}.", path=told) from error
    if is_there:
        raise CommandError(f"{told} is neither a file nor a folder.", path=told)
    raise CommandError(f"There is no file or folder {told}.", path=told)


def place_of(path: Path) -> Path:
    """Without the dots, and with the links: a folder is known by what it is called."""
    return Path(os.path.normpath(path.absolute()))


def hashed(files: Iterable[Found]) -> tuple[list[Hashed], list[Trouble]]:
    """Read each file once; those that cannot be read are told."""
    read, troubles = [], []
    for each in files:
        try:
            with each.file.open("rb") as opened:
                digest = file_digest(opened, "sha256").digest()
                read.append(Hashed(*each, opened.tell(), digest))
        except OSError as error:
            troubles.append(Trouble(each.path, _why(error)))
    return read, troubles


def _why(error: OSError) -> str:
    return f"It cannot be read: {error.strerror or error}."


def _shown(name: str) -> str:
    """A name as it can be printed, whatever bytes it has."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
