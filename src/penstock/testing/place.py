"""Where the files of a test server lie."""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path

from penstock.embedded import Server

MEMORY = Path("/dev/shm")
ENOUGH = 2 * 1024**3
PREFIX = "penstock-pytest-"
AN_HOUR = 3600.0


def place_for(session: Path) -> Path:
    """The folder of a session's server: the same for all its processes.

    In memory, if there is enough of it: a clone takes 30 ms there, and 300 ms on a busy disk.
    """
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ENOUGH:
        return session / "penstock"
    remove_abandoned(MEMORY)
    digest = hashlib.sha256(str(session.resolve()).encode()).hexdigest()[:12]
    return MEMORY / f"{PREFIX}{digest}"


def remove_abandoned(folder: Path) -> None:
    """Give back the memory of sessions that were killed: their servers stop, their files stay."""
    for place in folder.glob(f"{PREFIX}*"):
        try:
            is_old = time.time() - place.stat().st_mtime > AN_HOUR
        except FileNotFoundError:  # Another session was faster.
            continue
        if is_old and not Server(place).status().running:
            shutil.rmtree(place, ignore_errors=True)
