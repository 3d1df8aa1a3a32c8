"""The folder of one embedded server. Its name is `.penstock` unless you choose another one.

    .penstock/
        .gitignore      so that the database is never committed
        lock            locked while a process starts or stops the server
        server          locked by the server's processes until the last one has ended
        watcher         locked by the watcher while it runs
        holders/        one locked file for each hold
        keep            exists while the server is to keep running without holders
        postgres/       the database itself, with its logs in postgres/log/

Only the owner of the folder can open it.
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

# A child of os.fork() shares its parent's open files, and with them the locks: the locks of a dead
# parent would stay taken while its child lives. The child therefore closes every file in _open. The
# guard prevents a fork between opening a file and adding it to _open.
_open: set[LockedFile] = set()
_guard = threading.Lock()


class LockedFile:
    """A file whose lock is released when it is closed, or when its process ends."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        # A file that is open for reading can be locked, so the folder's owner can lock a file
        # that root has made. O_NOFOLLOW protects root in a folder where others may plant links.
        flags = os.O_RDONLY | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
        with _guard:
            self._fd = os.open(path, flags, 0o644)
            _open.add(self)

    def lock(self) -> None:
        """Wait until no other process has locked the file, and lock it."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def try_lock(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait_for_owner(self) -> None:
        """Wait until the process that has locked the file has unlocked it or died."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def fileno(self) -> int:
        """Return the descriptor for a program to inherit.

        The file stays locked until the last copy of the descriptor is closed.
        """
        return self._fd

    def outlive_exec(self) -> None:
        """Keep the lock through an exec. The program that replaces this process then has it."""
        os.set_inheritable(self._fd, True)

    def close(self) -> None:
        with _guard:
            if self in _open:
                _open.remove(self)
                os.close(self._fd)

    def __enter__(self) -> LockedFile:
        try:
            self.lock()
        except BaseException:  # For example, Ctrl-C was pressed during the wait.
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def has_owner(path: Path) -> bool:
    """Return whether a process has locked the file now."""
    try:
        file = LockedFile(path)
    except FileNotFoundError:
        return False
    try:
        # The lock is shared, so that two callers at the same moment do not see each other's lock.
        fcntl.flock(file._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        file.close()
    return False


def _close_in_child() -> None:
    # Closing does not unlock the files, because the parent still has them open.
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
    """The files in `holders/`, one for each hold. The file of a dead process is not locked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def register(self) -> LockedFile:
        file = LockedFile(self._folder / f"{os.getpid()}-{secrets.token_hex(4)}", create=True)
        file.lock()
        return file

    def pids(self) -> tuple[int, ...]:
        return tuple(sorted(int(path.name.split("-")[0]) for path in self._locked_files()))

    def sweep(self) -> None:
        """Remove the files of dead processes. Call this only under the folder's lock."""
        locked = self._locked_files()
        for path in self._files():
            if path not in locked:
                path.unlink(missing_ok=True)

    def wait_for_one(self) -> None:
        """Wait until a holder has released the server or died. Return at once if there is none."""
        for path in self._locked_files()[:1]:
            with suppress(FileNotFoundError), closing(LockedFile(path)) as file:
                file.wait_for_owner()

    def _locked_files(self) -> list[Path]:
        return [path for path in self._files() if has_owner(path)]

    def _files(self) -> list[Path]:
        return list(self._folder.iterdir()) if self._folder.is_dir() else []


DEFAULT_FOLDER = ".penstock"


class Folder:
    """The folder of one embedded server, and the lock under which the server starts and stops."""

    def __init__(self, path: Path | str | None = None) -> None:
        name = path or os.environ.get("PENSTOCK_DATA_DIR") or DEFAULT_FOLDER
        self.path = Path(name).expanduser().resolve()
        self.data = self.path / "postgres"
        self.holders = Holders(self.path / "holders")
        self.server = self.path / "server"
        self.watcher = self.path / "watcher"
        self._lock = self.path / "lock"
        self._gitignore = self.path / ".gitignore"
        self._keep = self.path / "keep"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder's lock during a `with` block.

        Start and stop the server, and add and remove holders, only under this lock.
        """
        with self._plain_errors(), LockedFile(self._lock):
            yield

    def exists(self) -> bool:
        with self._plain_errors(), suppress(FileNotFoundError):
            next(self.path.iterdir(), None)  # Raises if this user may not read the folder.
            return True
        return False

    def prepare(self) -> None:
        """Create the folder. Any number of processes may do so at the same time."""
        with self._plain_errors():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._refuse_foreign_files()
            with LockedFile(self._lock, create=True):
                # Only this method creates files, so that a late process does not bring a removed
                # folder back.
                for path in (self.server, self.watcher):
                    _create_file(path)
                if _create_file(self._gitignore):
                    self._gitignore.write_text("*\n")
                (self.path / "holders").mkdir(exist_ok=True)

    @property
    def name(self) -> str:
        """The name of the server's processes, and of its socket folder in /tmp.

        It is made from the folder's inode. It therefore stays the same when the folder is moved,
        even while the server runs, and a copy of the folder has another name.
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
        """The major version of Postgres that created the database, or None if there is none."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None

    @property
    def is_persistent(self) -> bool:
        """Whether the server is to keep running without holders."""
        return self._keep.exists()

    def is_watched(self) -> bool:
        return has_owner(self.watcher)

    def set_persistent(self) -> None:
        _create_file(self._keep)

    def clear_persistent(self) -> None:
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
        # The .gitignore would hide other files from git, and a slip such as --data-dir=. would
        # spread a database over a project. The lock is the first file that Penstock creates, so a
        # folder without it is not ours.
        entries = sorted(entry.name for entry in self.path.iterdir())
        if entries and "lock" not in entries:
            raise EmbeddedError(
                f"The folder {self.path} holds other files, such as {entries[0]}. Name a new or "
                "empty folder with PENSTOCK_DATA_DIR or --data-dir."
            )


def _create_file(path: Path) -> bool:
    """Create an empty file, and return whether it was created.

    An existing file is left as it is, because it may belong to another user.
    """
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Hold:
    """Keeps the server running until you release it, or until the process ends."""

    def __init__(
        self, url: str, file: LockedFile, on_release: Callable[[LockedFile], None]
    ) -> None:
        self.url = url
        self._file = file
        self._on_release = on_release
        self._pid = os.getpid()
        self._released = False
        atexit.register(self.release)

    def release(self) -> None:
        """Release the server. The last holder to do so stops it. Further calls do nothing."""
        # A forked child has a copy of this object, but only its parent may release the hold.
        if self._released or self._pid != os.getpid():
            return
        self._released = True
        atexit.unregister(self.release)
        self._on_release(self._file)

    def outlive_exec(self) -> None:
        """Pass the hold on to the program that is about to replace this one."""
        self._file.outlive_exec()
