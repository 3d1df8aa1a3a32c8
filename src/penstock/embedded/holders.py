"""Who uses the server: one locked file for each hold, so that the dead are not counted."""

import os
import secrets
from contextlib import closing, suppress
from pathlib import Path

from penstock.embedded.locked_file import LockedFile, has_owner


class Holders:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def register(self) -> LockedFile:
        mark = LockedFile(self._folder / f"{os.getpid()}-{secrets.token_hex(4)}", create=True)
        mark.lock()
        return mark

    def pids(self) -> tuple[int, ...]:
        return tuple(sorted(int(path.name.split("-")[0]) for path in self._living()))

    def sweep(self) -> None:
        """Remove what the dead have left behind; call this only under the folder's lock."""
        living = self._living()
        for path in self._marks():
            if path not in living:
                path.unlink(missing_ok=True)

    def wait_for_one(self) -> None:
        """Return when some holder has gone; at once if there is none."""
        for path in self._living()[:1]:
            with suppress(FileNotFoundError), closing(LockedFile(path)) as mark:
                mark.wait_for_owner()

    def _living(self) -> list[Path]:
        return [path for path in self._marks() if has_owner(path)]

    def _marks(self) -> list[Path]:
        return list(self._folder.iterdir()) if self._folder.is_dir() else []
