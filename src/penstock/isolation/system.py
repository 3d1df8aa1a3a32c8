"""Processes of the system: their memory, killing a group, when a fork is safe, scratch files."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Final

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


def scratch() -> IO[bytes]:
    """A new file, gone when the last process that has it open closes it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("penstock"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


HERE: Final = str(Path(__file__).parents[2])
RUN: Final = "import sys; sys.path.insert(0, {here!r}); from {module} import main; main()"


def program(module: str, *arguments: int) -> list[str]:
    """The command that calls a module's `main`, with -W, -X, -O and the like as they are here."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    code = RUN.format(here=HERE, module=module)
    return [sys.executable, *flags, "-c", code, *map(str, arguments)]
