"""How much memory a process holds."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
HAS_PROC: Final = sys.platform == "linux"


def resident(pid: int) -> int:
    """The bytes that a process holds in memory, as `ps` and `top` show them; 0 if it is gone."""
    try:
        return _from_proc(pid) if HAS_PROC else _from_ps(pid)
    except (OSError, ValueError, IndexError):
        return 0


def _from_proc(pid: int) -> int:
    file = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
    try:
        return int(os.read(file, 100).split()[1]) * PAGE
    finally:
        os.close(file)


def _from_ps(pid: int) -> int:
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, timeout=5)
    return int(told.stdout) * 1024
