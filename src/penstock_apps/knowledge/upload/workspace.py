"""The folder in which one upload's files stand until they are stored."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp

PREFIX = "upload-"


@asynccontextmanager
async def workspace(folder: Path) -> AsyncIterator[Path]:
    """A folder of one's own below this one; it goes with all that is left in it."""
    here = Path(await asyncio.to_thread(_make, folder))
    try:
        yield here
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, here, ignore_errors=True))


def sweep(folder: Path, older_than: timedelta = timedelta(days=1)) -> int:
    """Remove what killed processes have left here; how many folders these were."""
    before = time.time() - older_than.total_seconds()
    left = [each for each in folder.glob(f"{PREFIX}*") if each.stat().st_mtime < before]
    for each in left:
        shutil.rmtree(each, ignore_errors=True)
    return len(left)


def _make(folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return mkdtemp(prefix=PREFIX, dir=folder)
