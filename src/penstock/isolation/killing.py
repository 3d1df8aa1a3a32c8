"""How a child is killed and its end found, with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Final

# Where an end can be found before the number of the process is free for another.
HAS_WAITID: Final = hasattr(os, "waitid")


def kill(pid: int) -> None:
    """Kill a child and all that belongs to its session's group."""
    _kill_group(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def reaped(pid: int) -> int | None:
    """How a child ended, None if it lives; what it had started itself ends with it."""
    if HAS_WAITID:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        _kill_group(pid)
    found, status = os.waitpid(pid, os.WNOHANG)
    if not found:
        return None
    if not HAS_WAITID:
        _kill_group(pid)
    return status


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
