"""The files that a command names, the documents whose files are gone, and renamed folders."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import file_digest
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple

from penstock.cli.errors import CommandError
from penstock.wording import counted
from penstock_apps.knowledge.cli.options import ALONE
from penstock_apps.knowledge.cli.progress import FileProblem, RenamedFolder
from penstock_apps.knowledge.file_names import is_displayable
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import HeldDocument
from penstock_apps.knowledge.store.sources import Source

# What an index of Postgres has room for, and some more.
MAX_PATH_BYTES = 2000
# What tools make for themselves: nobody's documents.
GENERATED_FOLDERS = ("__pycache__", "node_modules")


class FoundFile(NamedTuple):
    """A file, and its path in the folder that it is known by."""

    path: str
    file: Path


class HashedFile(NamedTuple):
    """A file with the size and the SHA-256 of its content."""

    path: str
    file: Path
    size: int
    digest: bytes


class FileSearch:
    """The files of each folder; what cannot be looked at is told, and the rest goes on.

    A file that is named itself belongs to the folder it is in. Hidden files and folders are left
    out, and what tools make for themselves, unless they are named. Links do not leave the folder,
    unless they are followed: who fills a folder does not choose which other files are read.
    """

    def __init__(self, paths: Sequence[Path], *, follow_links: bool = False) -> None:
        self._follow_links = follow_links
        # Links that lead out of the folders they are in, and were left out.
        self.leading_out: list[str] = []
        self.folders: dict[Path, dict[str, FoundFile]] = {}
        self.troubles: list[FileProblem] = []
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
        place = absolute_path(path)
        kind = _kind_of(place, _printable(str(path)))
        root = place if kind == "folder" else place.parent
        if not is_displayable(str(root)):
            told = _printable(str(root))
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

    def _take(self, known: dict[str, FoundFile], root: Path, file: Path) -> None:
        name = str(file.relative_to(root))
        if not is_displayable(name):
            told = "Its name has characters that cannot be shown; give it another one."
            self.troubles.append(FileProblem(_printable(name), told))
        elif len(name.encode()) > MAX_PATH_BYTES:
            told = f"Its path has more than {MAX_PATH_BYTES:,} bytes; name a folder that is nearer."
            self.troubles.append(FileProblem(f"…{name[-100:]}", told))
        else:
            known[name] = FoundFile(name, file)

    def _walk(self, folder: Path) -> Iterator[Path]:
        """All files below a folder, in order."""

        def cannot_look(error: OSError) -> None:
            self._partial.add(folder)
            self.troubles.append(
                FileProblem(_printable(str(error.filename)), _describe_error(error))
            )

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
    return name.startswith(".") or name in GENERATED_FOLDERS


def _kind_of(place: Path, told: str) -> Literal["folder", "file"]:
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


def absolute_path(path: Path) -> Path:
    """Without the dots, and with the links: a folder is known by what it is called."""
    return Path(os.path.normpath(path.absolute()))


def hash_files(files: Iterable[FoundFile]) -> tuple[list[HashedFile], list[FileProblem]]:
    """Read each file once; those that cannot be read are told."""
    read, troubles = [], []
    for each in files:
        try:
            with each.file.open("rb") as opened:
                digest = file_digest(opened, "sha256").digest()
                read.append(HashedFile(*each, opened.tell(), digest))
        except OSError as error:
            troubles.append(FileProblem(each.path, _describe_error(error)))
    return read, troubles


def _describe_error(error: OSError) -> str:
    return f"It cannot be read: {error.strerror or error}."


def _printable(name: str) -> str:
    """A name as it can be printed, whatever bytes it has."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


class Pruning:
    """Finds them below folders that were looked at as a whole, and deletes them if that is wanted.

    An empty folder says nothing: it is what is left where a disk is not mounted.
    """

    def __init__(self, library: Library, found: FileSearch) -> None:
        self._library = library
        self._found = found
        self._gone: list[int] = []
        self._empty: dict[Path, int] = {}
        self.removed = 0

    @property
    def gone(self) -> int:
        return len(self._gone)

    async def look(self, folder: Path, held: Mapping[str, HeldDocument]) -> None:
        """Compare what a folder had with what it has."""
        # Attachments go with their mails.
        files = {path for path, each in held.items() if each.parent is None}
        missing = files - self._found.folders[folder].keys()
        if not missing or not self._found.is_whole(folder):
            return
        paths = await asyncio.to_thread(_find_gone_files, folder, sorted(missing))
        if paths is None:
            self._empty[folder] = len(missing)
        else:
            self._gone += [held[path].id for path in paths]

    async def prune(self) -> list[FileProblem]:
        """Delete them; which folders were left as they are, and why."""
        self.removed = await self._library.delete_documents(self._gone)
        return [
            FileProblem(
                str(folder),
                "It is empty, as the place of a disk that is not there; what it had stays, "
                f"{counted(number, 'document')}. "
                f"`penstock knowledge delete source {self._called(folder)}` deletes that.",
            )
            for folder, number in self._empty.items()
        ]

    def _called(self, folder: Path) -> str:
        tenant = self._library.tenant
        whose = "" if tenant == ALONE else f" --tenant {quote(tenant)}"
        return quote(str(folder)) + whose


def _find_gone_files(folder: Path, paths: Iterable[str]) -> list[str] | None:
    """Those of the paths at which nothing is any more; None if the folder is empty.

    Hidden files and what is behind links was not found below the folder, and is there all the same.
    """
    try:
        if not any(folder.iterdir()):
            return None
    except OSError:
        return []
    gone = [path for path in paths if _is_gone(folder / path)]
    # It may have gone itself meanwhile.
    return gone if folder.is_dir() else []


def _is_gone(file: Path) -> bool:
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


# What is looked at, at most: the newest sources of a base, and documents of each.
MAX_SOURCES_COMPARED = 1000
MAX_MISSING_FOLDERS_COMPARED = 100
MAX_DOCUMENTS_COMPARED = 1000


async def find_renamed_folders(
    library: Library, base: Base, folders: Collection[Path]
) -> list[RenamedFolder]:
    """Sources whose folder is not there any more, and whose files are now in one of these.

    Only those: other folders that are not here may be those of another machine.
    """
    keys = {str(each) for each in folders}
    async with library.transaction() as on:
        found = await library.runtime.sources.list(
            on, library.tenant, base.id, None, MAX_SOURCES_COMPARED
        )
    files = [each for each in found if each.kind == "files" and each.key is not None]
    own = [each.id for each in files if each.key in keys]
    others = [each for each in files if each.key not in keys]
    gone = await asyncio.to_thread(_sources_without_folder, others)
    if not gone or not own:
        return []
    async with library.transaction() as on:
        ids = [each.id for each in gone[:MAX_MISSING_FOLDERS_COMPARED]]
        copies = await library.runtime.sources.find_copies(
            on, library.tenant, ids, own, MAX_DOCUMENTS_COMPARED
        )
    return [
        RenamedFolder(
            str(each.id),
            str(each.key),
            (await library.progress(source=each.id)).total,
            _delete_command(library, each),
        )
        for each in gone
        if each.id in copies
    ]


def _sources_without_folder(sources: list[Source]) -> list[Source]:
    return [
        each for each in sources if Path(each.key or "").is_absolute() and _has_no_folder(each.key)
    ]


def _has_no_folder(key: str | None) -> bool:
    return not os.path.lexists(key or "")


def _delete_command(library: Library, source: Source) -> str:
    whose = "" if library.tenant == ALONE else f" --tenant {quote(library.tenant)}"
    return f"penstock knowledge delete source {source.id}{whose}"
