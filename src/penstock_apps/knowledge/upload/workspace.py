"""The folder in which one upload's files stand until they are stored."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp

PREFIX = "upload-"


@asynccontextmanager
async def workspace(folder: Path) -> AsyncIterator[Path]:
    """A folder of one's own below this one; it goes with all that is left in it.

    What a killed process leaves goes with the folder of that process: see scratch.py.
    """
    here = Path(await asyncio.to_thread(_make, folder))
    try:
        yield here
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, here, ignore_errors=True))


def _make(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return mkdtemp(prefix=PREFIX, dir=folder)
