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

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from penstock.errors import EmbeddedError

# A child of os.fork() shares its parent's open files, and with them the locks: a parent that died
# would live on in its child. The child therefore closes every file in _open. The guard keeps a fork
# out of the moment between opening a file and noting it.
_open: set[LockedFile] = set()
_guard = threading.Lock()


class LockedFile:
    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        # Read-only is enough to lock, so a file made by root does not shut out its folder's
        # owner. O_NOFOLLOW: root may be at work in a folder where somebody else plants links.
        flags = os.O_RDONLY | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        with _guard:
            self._fd = os.open(path, flags, 0o644)
            _open.add(self)

    def lock(self) -> None:
        """Wait until nobody else has the file locked, then lock it."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def try_lock(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_for_owner(self) -> None:
        """Return when its owner has unlocked the file or died."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def fileno(self) -> int:
        """For a program to inherit: the file stays locked until the last copy is closed."""
        return self._fd

    def outlive_exec(self) -> None:
        """Stay locked through an exec: the program that replaces this one is the owner then."""
        os.set_inheritable(self._fd, True)

    def close(self) -> None:
        with _guard:
            if self in _open:
                _open.remove(self)
                os.close(self._fd)

    def __enter__(self) -> LockedFile:
        try:
            self.lock()
        except BaseException:  # such as Ctrl-C during the wait
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def has_owner(path: Path) -> bool:
    """Whether somebody keeps the file locked at this moment."""
    try:
        file = LockedFile(path)
    except FileNotFoundError:
        return False
    try:
        # A shared lock: two who look at the same moment must not take each other for the owner.
        fcntl.flock(file._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        file.close()
    return False


def _close_in_child() -> None:
    # Closing does not unlock: the parent still has the file open.
    for file in _open:
        os.close(file._fd)
    _open.clear()
    _guard.release()


os.register_at_fork(
    before=_guard.acquire,
    after_in_parent=_guard.release,
    after_in_child=_close_in_child,
)


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


class Hold:
    """Release it when the server is no longer needed; the end of the process does so as well."""

    def __init__(self, url: str, mark: LockedFile, leave: Callable[[LockedFile], None]) -> None:
        self.url = url
        self._mark = mark
        self._leave = leave
        self._pid = os.getpid()
        self._released = False
        atexit.register(self.release)

    def release(self) -> None:
        """Let go, once; the last one to do so stops the server."""
        # A child of a fork has this object too, but the hold is its parent's.
        if self._released or self._pid != os.getpid():
            return
        self._released = True
        atexit.unregister(self.release)
        self._leave(self._mark)

    def outlive_exec(self) -> None:
        """Hand the hold to the program that is about to replace this one."""
        self._mark.outlive_exec()
