"""Many files into a folder, by a few threads that take one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from penstock_apps.knowledge.storage.errors import FileChanged
from penstock_apps.knowledge.storage.local import keep

THREADS = 8


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
