"""Marks that any process below this one leaves: a byte each, at the end of a file."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.peers.runs import Runs

LOOK_EVERY = 0.01


def mark(name: str) -> None:
    """Leave one; in a process that was started while somebody counts."""
    os.write(_file(os.environ[name]), b".")


@cache
def _file(place: str) -> int:
    return os.open(place, os.O_WRONLY | os.O_APPEND)


class Marks:
    """Those of one name, counted while this is entered."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Self:
        file, place = tempfile.mkstemp(prefix="penstock-bench-")
        os.close(file)
        self._place = Path(place)
        os.environ[self._name] = place
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        del os.environ[self._name]
        self._place.unlink()

    @property
    def count(self) -> int:
        return self._place.stat().st_size

    @asynccontextmanager
    async def noted_in(self, runs: Runs) -> AsyncIterator[None]:
        """Each is noted as a handler that has begun."""
        watching = asyncio.create_task(self._note(runs))
        try:
            yield
        finally:
            watching.cancel()

    async def _note(self, runs: Runs) -> None:
        while True:
            for number in range(runs.count, self.count):
                runs.note(number)
            await asyncio.sleep(LOOK_EVERY)
