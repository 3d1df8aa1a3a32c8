"""What must not be forked: a process with threads, whose locks may be held, or with connections,
which parent and children would talk through at once."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path


def threads() -> int:
    """How many threads this process has, those of libraries in C too where the system tells."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return threading.active_count()


def sockets() -> set[int]:
    """The sockets that this process has open."""
    files = (int(each.name) for each in Path("/dev/fd").iterdir())
    return {file for file in files if _is_socket(file)}


def _is_socket(file: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(file).st_mode)
    except OSError:
        return False
