"""Temporary files of one process; those that killed processes have left are removed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "penstock-knowledge-"


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder of this process; those of processes that are gone are removed first.

    A lock says that a folder is in use. The system releases it with the process, however that ends.
    """
    parent = Path(tempfile.gettempdir())
    sweep(parent)
    folder, lock = _locked(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(parent: Path) -> int:
    """Remove the folders whose processes are gone; how many."""
    removed = 0
    for folder in parent.glob(f"{PREFIX}*"):
        if (lock := _lock(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            removed += 1
    return removed


def _locked(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = _lock(folder)
        if lock is not None and folder.exists():
            return folder, lock
        # Swept between the two steps.
        if lock is not None:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """A lock on a folder of ours, as its open descriptor; None if another process has it."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None  # Gone by now, or another user's.
    try:
        if os.fstat(opened).st_uid == os.getuid():
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return opened
    except OSError:
        pass
    os.close(opened)
    return None
