"""CocoIndex beside us: the same files, the same model, chunks of the same size, no indexes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.comparison import pythons
from benchmarks.comparison.environment import CannotInstall, Environment

HERE = Path(__file__).parent
RUNNER = HERE / "cocoindex_runner.py"
# With these bytes at most its chunks are on average as large as ours.
CHUNK_BYTES = 560


def installed() -> str:
    """The Python of its environment; CannotInstall."""
    environment = Environment("cocoindex", HERE)
    environment.make(*pythons.choose())
    return environment.python


async def bring_in(python: str, folder: Path, database_url: str, state: Path) -> dict[str, Any]:
    """What it says of a first run and a second."""
    process = await asyncio.create_subprocess_exec(
        python,
        "-P",  # its folder is ours, and holds modules of ours
        str(RUNNER),
        str(folder),
        database_url,
        str(state),
        str(CHUNK_BYTES),
        env=os.environ | {"COCOINDEX_DISABLE_USAGE_TRACKING": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, troubles = await process.communicate()
    if process.returncode:
        last = troubles.decode().strip().splitlines()[-1:]
        raise CannotInstall(f"it failed: {' '.join(last)}")
    document: dict[str, Any] = json.loads(said.splitlines()[-1])
    return document
