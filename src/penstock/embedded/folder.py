"""The folder that holds one embedded server, `.penstock` unless named otherwise.

    .penstock/
        .gitignore      so that the database is never committed
        lock            locked by whoever starts or stops the server
        server          locked by the server's own processes, as long as one of them lives
        watcher         locked by the watcher, while there is one
        holders/        one locked file for each hold
        keep            here as long as the server shall outlive its holders
        postgres/       the database itself, with its logs in postgres/log/

It is open to its owner only.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.embedded.holders import Holders
from penstock.embedded.locked_file import LockedFile, has_owner
from penstock.errors import EmbeddedError

DEFAULT = ".penstock"


class Folder:
    def __init__(self, path: Path | str | None = None) -> None:
        chosen = path or os.environ.get("PENSTOCK_DATA_DIR") or DEFAULT
        self.path = Path(chosen).expanduser().resolve()
        self.data = self.path / "postgres"
        self.holders = Holders(self.path / "holders")
        self.server = self.path / "server"
        self.watcher = self.path / "watcher"
        self._lock = self.path / "lock"
        self._gitignore = self.path / ".gitignore"
        self._keep = self.path / "keep"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Starting, stopping, registering and leaving happen one at a time, in here."""
        with self._plain_errors(), LockedFile(self._lock):
            yield

    def exists(self) -> bool:
        with self._plain_errors(), suppress(FileNotFoundError):
            next(self.path.iterdir(), None)  # being allowed to look inside is part of it
            return True
        return False

    def prepare(self) -> None:
        """Make the folder; any number of processes may do so at the same moment."""
        with self._plain_errors():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._refuse_foreign_files()
            with LockedFile(self._lock, create=True):
                # Made here and nowhere else: what comes late must not revive a removed folder.
                for path in (self.server, self.watcher):
                    _make(path)
                if _make(self._gitignore):
                    self._gitignore.write_text("*\n")
                (self.path / "holders").mkdir(exist_ok=True)

    @property
    def name(self) -> str:
        """The name that the server's processes carry, and its socket folder in /tmp.

        Made from the folder's place on the disk: it stays when the folder is moved, even while
        the server runs, and a copy of the folder gets its own.
        """
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            raise EmbeddedError(
                f"There is no database in {self.path} yet. Start it with `penstock db start`."
            ) from None
        digest = hashlib.sha256(f"{stat.st_dev}:{stat.st_ino}".encode()).hexdigest()[:12]
        return f"penstock-{digest}"

    @property
    def major(self) -> int | None:
        """The major version of Postgres that made the database, None before there is one."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None

    @property
    def kept(self) -> bool:
        return self._keep.exists()

    def is_watched(self) -> bool:
        return has_owner(self.watcher)

    def keep(self) -> None:
        _make(self._keep)

    def release(self) -> None:
        self._keep.unlink(missing_ok=True)

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EmbeddedError(
                f"The data folder {self.path} cannot be used ({error}). Name another one with "
                "PENSTOCK_DATA_DIR or --data-dir."
            ) from error

    def _refuse_foreign_files(self) -> None:
        # The .gitignore would hide them from git, and a slip such as --data-dir=. would spread
        # a database over a project. The lock is the first file that we make.
        entries = sorted(entry.name for entry in self.path.iterdir())
        if entries and "lock" not in entries:
            raise EmbeddedError(
                f"The folder {self.path} holds other files, such as {entries[0]}. Name a new or "
                "empty folder with PENSTOCK_DATA_DIR or --data-dir."
            )


def _make(path: Path) -> bool:
    """Make an empty file unless it is there; it may be another user's, so leave it alone then."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
