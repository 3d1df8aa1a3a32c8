"""Find the files that a command names, documents whose files are gone, and renamed folders."""

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
from penstock_apps.knowledge.cli.options import DEFAULT_TENANT
from penstock_apps.knowledge.cli.progress import FileProblem, RenamedFolder
from penstock_apps.knowledge.file_names import is_displayable
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base
from penstock_apps.knowledge.store.documents import HeldDocument
from penstock_apps.knowledge.store.sources import Source

# An entry of a Postgres index holds 2,704 bytes, and a path is not alone in it.
MAX_PATH_BYTES = 2000
# Folders that tools generate hold no documents.
GENERATED_FOLDERS = ("__pycache__", "node_modules")


class FoundFile(NamedTuple):
    """A file, and its path relative to its folder."""

    path: str
    file: Path


class HashedFile(NamedTuple):
    """A file with its size and the SHA-256 of its content."""

    path: str
    file: Path
    size: int
    digest: bytes


class FileSearch:
    """Finds the files of each folder, and collects problems instead of stopping at them.

    If the user names a file, it belongs to the folder that contains it. Hidden files and generated
    folders are left out unless the user names them. Links that lead out of the folder are followed
    only with `follow_links`. Otherwise, a person who can add files to the folder could choose which
    other files are read.
    """

    def __init__(self, paths: Sequence[Path], *, follow_links: bool = False) -> None:
        self._follow_links = follow_links
        # Links that were left out because they lead out of their folders.
        self.outside_links: list[str] = []
        self.folders: dict[Path, dict[str, FoundFile]] = {}
        self.problems: list[FileProblem] = []
        # Folders that were named, and folders of which some part could not be read.
        self._named: set[Path] = set()
        self._partial: set[Path] = set()
        for path in paths:
            self._add(path)

    @property
    def total(self) -> int:
        return len(self.problems) + sum(map(len, self.folders.values()))

    def is_complete(self, folder: Path) -> bool:
        """Return whether the user named this folder, and everything below it could be read."""
        return folder in self._named and folder not in self._partial

    def _add(self, path: Path) -> None:
        place = absolute_path(path)
        kind = _kind_of(place, _printable(str(path)))
        root = place if kind == "folder" else place.parent
        if not is_displayable(str(root)):
            shown = _printable(str(root))
            raise CommandError(
                f"The name of the folder {shown} has characters that cannot be displayed. Rename "
                "the folder.",
                path=shown,
            )
        known = self.folders.setdefault(root, {})
        if kind == "file":
            self._add_file(known, root, place)
        elif root not in self._named:
            self._named.add(root)
            for file in self._walk(root):
                self._add_file(known, root, file)

    def _add_file(self, known: dict[str, FoundFile], root: Path, file: Path) -> None:
        name = str(file.relative_to(root))
        if not is_displayable(name):
            message = "Its name has characters that cannot be displayed. Rename it."
            self.problems.append(FileProblem(_printable(name), message))
        elif len(name.encode()) > MAX_PATH_BYTES:
            message = (
                f"Its path has more than {MAX_PATH_BYTES:,} bytes. Name a folder that is "
                "nearer to the file."
            )
            self.problems.append(FileProblem(f"…{name[-100:]}", message))
        else:
            known[name] = FoundFile(name, file)

    def _walk(self, folder: Path) -> Iterator[Path]:
        """Yield all files below a folder, in order."""

        def cannot_look(error: OSError) -> None:
            self._partial.add(folder)
            self.problems.append(
                FileProblem(_printable(str(error.filename)), _describe_error(error))
            )

        real = os.path.realpath(folder)
        seen = {real}
        for place, folders, names in os.walk(
            folder, onerror=cannot_look, followlinks=self._follow_links
        ):
            entered = sorted(name for name in folders if not _is_left_out(name))
            folders[:] = [each for each in entered if self._may_enter(Path(place, each), seen)]
            for name in sorted(names):
                file = Path(place) / name
                try:
                    if not _is_left_out(name) and file.is_file() and self._may_read(file, real):
                        yield file
                except OSError as error:
                    cannot_look(error)

    def _may_read(self, file: Path, root: str) -> bool:
        """Return whether to read a file. If not, record it as a link out of its folder."""
        if self._follow_links or not _is_link(file) or _is_below(os.path.realpath(file), root):
            return True
        self.outside_links.append(str(file))
        return False

    def _may_enter(self, folder: Path, seen: set[str]) -> bool:
        """Return whether to enter a folder: links only if allowed, and no folder twice."""
        if not _is_link(folder):
            return True
        real = os.path.realpath(folder)
        if not self._follow_links:
            if not any(_is_below(real, each) for each in seen):
                self.outside_links.append(str(folder))
            return False
        # A target below the root is found without the link, and one above it contains the root.
        if any(_is_below(real, each) or _is_below(each, real) for each in seen):
            return False
        seen.add(real)
        return True


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:
        return False  # Reading it will fail as well, and say why.


def _is_below(path: str, root: str) -> bool:
    return os.path.commonpath([path, root]) == root


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name in GENERATED_FOLDERS


def _kind_of(place: Path, shown: str) -> Literal["folder", "file"]:
    try:
        if place.is_dir():
            return "folder"
        if place.is_file():
            return "file"
        is_there = place.exists()
    except OSError as error:
        why = error.strerror or str(error)
        raise CommandError(f"{shown} cannot be accessed: {why}.", path=shown) from error
    if is_there:
        raise CommandError(f"{shown} is neither a file nor a folder.", path=shown)
    raise CommandError(f"There is no file or folder {shown}.", path=shown)


def absolute_path(path: Path) -> Path:
    """Make a path absolute, without `.` and `..`. Links stay, since the path names a source."""
    return Path(os.path.normpath(path.absolute()))


def hash_files(files: Iterable[FoundFile]) -> tuple[list[HashedFile], list[FileProblem]]:
    """Hash each file. Return the files that could be read, and the problems of the others."""
    read, problems = [], []
    for each in files:
        try:
            with each.file.open("rb") as opened:
                digest = file_digest(opened, "sha256").digest()
                read.append(HashedFile(*each, opened.tell(), digest))
        except OSError as error:
            problems.append(FileProblem(each.path, _describe_error(error)))
    return read, problems


def _describe_error(error: OSError) -> str:
    return f"It cannot be read: {error.strerror or error}."


def _printable(name: str) -> str:
    """Return a name in which everything that cannot be printed is escaped."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


class Pruning:
    """Finds documents whose files are gone, and can delete them.

    It compares only folders that were read completely. It keeps the documents of an empty folder,
    since the disk of that folder may just not be mounted.
    """

    def __init__(self, library: Library, files: FileSearch) -> None:
        self._library = library
        self._files = files
        self._gone: list[int] = []
        self._empty: dict[Path, int] = {}
        self.removed = 0

    @property
    def gone(self) -> int:
        return len(self._gone)

    async def compare(self, folder: Path, held: Mapping[str, HeldDocument]) -> None:
        """Record the documents of a folder whose files are gone."""
        # Attachments are deleted with their mails.
        files = {path for path, each in held.items() if each.parent is None}
        missing = files - self._files.folders[folder].keys()
        if not missing or not self._files.is_complete(folder):
            return
        paths = await asyncio.to_thread(_find_gone_files, folder, sorted(missing))
        if paths is None:
            self._empty[folder] = len(missing)
        else:
            self._gone += [held[path].id for path in paths]

    async def prune(self) -> list[FileProblem]:
        """Delete the documents whose files are gone. Return a problem for each empty folder."""
        self.removed = await self._library.delete_documents(self._gone)
        return [
            FileProblem(
                str(folder),
                "It is empty, perhaps because its disk is not mounted, so nothing was pruned. "
                f"`penstock knowledge delete source {self._source_arguments(folder)}` deletes its "
                f"{counted(number, 'document')}.",
            )
            for folder, number in self._empty.items()
        ]

    def _source_arguments(self, folder: Path) -> str:
        tenant = self._library.tenant
        whose = "" if tenant == DEFAULT_TENANT else f" --tenant {quote(tenant)}"
        return quote(str(folder)) + whose


def _find_gone_files(folder: Path, paths: Iterable[str]) -> list[str] | None:
    """Return the paths at which no file exists any more, or None if the folder is empty.

    Each path is checked, since FileSearch leaves out hidden files and links, which still exist.
    """
    try:
        if not any(folder.iterdir()):
            return None
    except OSError:
        return []
    gone = [path for path in paths if _is_gone(folder / path)]
    # The folder itself may have gone meanwhile.
    return gone if folder.is_dir() else []


def _is_gone(file: Path) -> bool:
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


MAX_SOURCES_COMPARED = 1000
MAX_MISSING_FOLDERS_COMPARED = 100
MAX_DOCUMENTS_COMPARED = 1000


async def find_renamed_folders(
    library: Library, base: Base, folders: Collection[Path]
) -> list[RenamedFolder]:
    """Return the sources whose folder is gone and whose files are mostly in one of `folders` now.

    A missing folder whose files are not there is left out, since it may be on another machine.
    """
    keys = {str(each) for each in folders}
    async with library.transaction() as on:
        sources = await library.runtime.sources.list(
            on, library.tenant, base.id, None, MAX_SOURCES_COMPARED
        )
    folder_sources = [each for each in sources if each.kind == "files" and each.key is not None]
    own = [each.id for each in folder_sources if each.key in keys]
    others = [each for each in folder_sources if each.key not in keys]
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
    whose = "" if library.tenant == DEFAULT_TENANT else f" --tenant {quote(library.tenant)}"
    return f"penstock knowledge delete source {source.id}{whose}"
