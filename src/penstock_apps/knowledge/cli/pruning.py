"""Documents whose files are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from shlex import quote

from penstock.wording import counted
from penstock_apps.knowledge.cli.files import Finding
from penstock_apps.knowledge.cli.options import ALONE
from penstock_apps.knowledge.cli.summary import Trouble
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.documents import Held


class Pruning:
    """Finds them below folders that were looked at as a whole, and deletes them if that is wanted.

    An empty folder says nothing: it is what is left where a disk is not mounted.
    """

    def __init__(self, library: Library, found: Finding) -> None:
        self._library = library
        self._found = found
        self._gone: list[int] = []
        self._empty: dict[Path, int] = {}
        self.removed = 0

    @property
    def gone(self) -> int:
        return len(self._gone)

    async def look(self, folder: Path, held: Mapping[str, Held]) -> None:
        """Compare what a folder had with what it has."""
        # Attachments go with their mails.
        files = {path for path, each in held.items() if each.parent is None}
        missing = files - self._found.folders[folder].keys()
        if not missing or not self._found.is_whole(folder):
            return
        paths = await asyncio.to_thread(_gone_from, folder, sorted(missing))
        if paths is None:
            self._empty[folder] = len(missing)
        else:
            self._gone += [held[path].id for path in paths]

    async def prune(self) -> list[Trouble]:
        """Delete them; which folders were left as they are, and why."""
        self.removed = await self._library.delete_documents(self._gone)
        return [
            Trouble(
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


def _gone_from(folder: Path, paths: Iterable[str]) -> list[str] | None:
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
