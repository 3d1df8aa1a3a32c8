"""`penstock ingest`, as anybody would run it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "penstock.cli")


class Failed(Exception):
    """The command did not end well; the message is what it said."""


async def migrate(database_url: str) -> None:
    await _said("migrate", "--with", "knowledge", "--database-url", database_url)


async def ingest(folder: Path, database_url: str, storage: Path) -> dict[str, Any]:
    """Its summary, and how long it took from its start to its end."""
    began = time.perf_counter()
    said = await _said(
        "ingest", str(folder), "--database-url", database_url, "--json", storage=str(storage)
    )
    return {**json.loads(said), "wall_seconds": time.perf_counter() - began}


async def _said(*words: str, storage: str = "") -> bytes:
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *words,
        env=os.environ | {"PENSTOCK_KNOWLEDGE_STORAGE": storage},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, troubles = await process.communicate()
    if process.returncode:
        raise Failed(troubles.decode().strip() or said.decode().strip())
    return said
