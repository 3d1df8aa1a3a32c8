"""A file that a process keeps locked: the kernel unlocks it when the process dies, however it dies.

These are flock locks. Each LockedFile opens the file anew, so they exclude the threads of one
process from one another just as they exclude other processes: no second, in-process lock is needed.
"""

import fcntl
import os
import threading
from pathlib import Path

# A child of os.fork() shares its parent's open files, and with them the locks: a parent that died
# would live on in its child. The child therefore closes every file in _open. The guard keeps a fork
# out of the moment between opening a file and noting it.
_open: set["LockedFile"] = set()
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

    def __enter__(self) -> "LockedFile":
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
