"""Store files in a folder of this machine, one at a time or several in parallel."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import deque
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from penstock.storage.errors import FileChanged, ObjectDamaged, ObjectMissing
from penstock.storage.names import digest_of

BLOCK_BYTES = 1024 * 1024
MAX_OPEN_ATTEMPTS = 50
MAX_THREADS = 8


def store_file(root: Path, name: str, path: Path) -> None:
    """Store a copy of a file under this name, completely or not at all, and flush it to the disk.

    If the file is stored already, its time is set to now, which keeps the sweep of orphans from
    deleting it.
    """
    target = root / name
    try:
        os.utime(target)
    except FileNotFoundError:
        with path.open("rb") as source:
            _write(target, source)


def size_of(root: Path, name: str) -> int:
    """Return the size of a stored file in bytes. Raises `ObjectMissing` if it does not exist."""
    try:
        return (root / name).stat().st_size
    except FileNotFoundError:
        raise ObjectMissing(name) from None


def copy_to(root: Path, name: str, path: Path) -> int:
    """Copy a stored file to a path, and return its size in bytes.

    On failure, no incomplete copy is left. Raises `ObjectMissing` if the file does not exist, and
    `ObjectDamaged` if its content does not match its name.
    """
    with _open_stored(root, name) as source, path.open("wb") as out:
        try:
            if _copy(source, out) != digest_of(name):
                raise ObjectDamaged(name)
            return out.tell()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _open_stored(root: Path, name: str) -> BinaryIO:
    try:
        return (root / name).open("rb")
    except FileNotFoundError:
        raise ObjectMissing(name) from None


def _write(target: Path, source: BinaryIO) -> None:
    # The sweep of orphans removes a part that a crash has left.
    part = target.with_name(f"{target.name}.part-{secrets.token_hex(8)}")
    with _open_new(part) as out:
        try:
            if _copy(source, out) != digest_of(target.name):
                raise FileChanged(source.name)
            os.fsync(out.fileno())
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    _sync_folder(target.parent)


def _copy(source: BinaryIO, out: BinaryIO) -> bytes:
    """Copy a file, and return its SHA-256."""
    hasher = sha256()
    while block := source.read(BLOCK_BYTES):
        hasher.update(block)
        out.write(block)
    out.flush()
    return hasher.digest()


def _open_new(part: Path, attempts: int = MAX_OPEN_ATTEMPTS) -> BinaryIO:
    """Create a file and its folders, and open the file.

    The sweep of orphans may remove the folders just after they were created, because they are
    empty. In that case this function tries again.
    """
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        return part.open("xb")
    except (FileNotFoundError, FileExistsError):
        if attempts == 1:
            raise
    return _open_new(part, attempts - 1)


def _sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk.

    The folder's parents may be new as well. They need no flush of their own, because a journaling
    file system writes them before these entries.
    """
    try:
        fd = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return  # The folder was emptied and removed by another process just now.
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class ParallelCopy:
    """Stores several files in parallel.

    `changed` collects the files that have changed since they were hashed, or can no longer be
    read. Any other error stops the copying.
    """

    def __init__(self, root: Path, files: Sequence[tuple[str, Path]]) -> None:
        self._root = root
        self._pending = deque(files)
        self.changed: set[Path] = set()

    async def run(self) -> None:
        """Store all files, each completely or not at all."""
        threads = min(MAX_THREADS, len(self._pending))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(threads):
                    group.create_task(asyncio.to_thread(self._copy_pending))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        finally:
            # After an error nothing waits for the other threads. They end after their present file.
            self._pending.clear()

    def _copy_pending(self) -> None:
        while self._pending:
            try:
                name, path = self._pending.popleft()
            except IndexError:
                return  # Another thread has taken the last one.
            try:
                self._store(name, path)
            except BaseException:
                self._pending.clear()
                raise

    def _store(self, name: str, path: Path) -> None:
        try:
            path.stat()
        except (FileNotFoundError, PermissionError):
            self.changed.add(path)
            return
        try:
            store_file(self._root, name, path)
        except FileChanged:
            self.changed.add(path)
