"""Files kept in a folder of this machine, one by one or many at once."""

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

BLOCK = 1024 * 1024
ATTEMPTS = 50


THREADS = 8


def keep(root: Path, name: str, path: Path) -> None:
    """Copy a file to its name, whole or not at all, and so that a power cut leaves it there.

    A file that is there already becomes young again: who sweeps orphans then spares it.
    """
    target = root / name
    try:
        os.utime(target)
    except FileNotFoundError:
        with path.open("rb") as source:
            _write(target, source)


def size_of(root: Path, name: str) -> int:
    """The bytes of what has a name; ObjectMissing."""
    try:
        return (root / name).stat().st_size
    except FileNotFoundError:
        raise ObjectMissing(name) from None


def fetch(root: Path, name: str, path: Path) -> int:
    """Copy what has a name to a file, or leave nothing; the bytes that it has."""
    with _opened(root, name) as source, path.open("wb") as out:
        try:
            if _copy(source, out) != digest_of(name):
                raise ObjectDamaged(name)
            return out.tell()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _opened(root: Path, name: str) -> BinaryIO:
    try:
        return (root / name).open("rb")
    except FileNotFoundError:
        raise ObjectMissing(name) from None


def _write(target: Path, source: BinaryIO) -> None:
    # The walk finds a part that a crash has left, and the sweep of orphans removes it.
    part = target.with_name(f"{target.name}.part-{secrets.token_hex(8)}")
    with _open(part) as out:
        try:
            if _copy(source, out) != digest_of(target.name):
                raise FileChanged(source.name)
            os.fsync(out.fileno())
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    _settle(target.parent)


def _copy(source: BinaryIO, out: BinaryIO) -> bytes:
    hashed = sha256()
    while block := source.read(BLOCK):
        hashed.update(block)
        out.write(block)
    out.flush()
    return hashed.digest()


def _open(part: Path, attempts: int = ATTEMPTS) -> BinaryIO:
    """Open a new file; its folders may be swept away as empty while they are being made."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        return part.open("xb")
    except (FileNotFoundError, FileExistsError):
        if attempts == 1:
            raise
    return _open(part, attempts - 1)


def _settle(folder: Path) -> None:
    """Have a folder on the disk; a file system with a journal writes new parents before it."""
    try:
        entries = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return  # Emptied and removed by somebody in this moment.
    try:
        os.fsync(entries)
    finally:
        os.close(entries)


class Copying:
    """What has changed or gone since it was looked at is noted; any other trouble ends all."""

    def __init__(self, root: Path, files: Sequence[tuple[str, Path]]) -> None:
        self._root = root
        self._rest = deque(files)
        self.changed: set[Path] = set()

    async def run(self) -> None:
        """Keep them all, each whole or not at all."""
        threads = min(THREADS, len(self._rest))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(threads):
                    group.create_task(asyncio.to_thread(self._work))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        finally:
            # Nobody waits for the threads any more: they end with the files that they are at.
            self._rest.clear()

    def _work(self) -> None:
        while self._rest:
            try:
                name, path = self._rest.popleft()
            except IndexError:
                return  # Another thread has taken the last one.
            try:
                self._keep(name, path)
            except BaseException:
                self._rest.clear()
                raise

    def _keep(self, name: str, path: Path) -> None:
        try:
            path.stat()
        except (FileNotFoundError, PermissionError):
            self.changed.add(path)
            return
        try:
            keep(self._root, name, path)
        except FileChanged:
            self.changed.add(path)
