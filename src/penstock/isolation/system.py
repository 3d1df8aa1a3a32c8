"""Asks the operating system: memory of a process, process groups, threads, scratch files."""

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

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
HAS_PROC: Final = sys.platform == "linux"


def resident_bytes(pid: int) -> int:
    """Return the bytes that a process holds in memory, as `ps` and `top` show; 0 if it is gone."""
    try:
        return _from_proc(pid) if HAS_PROC else _from_ps(pid)
    except (OSError, ValueError, IndexError):
        return 0


def _from_proc(pid: int) -> int:
    file = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
    try:
        return int(os.read(file, 100).split()[1]) * PAGE_BYTES
    finally:
        os.close(file)


def _from_ps(pid: int) -> int:
    output = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, timeout=5)
    return int(output.stdout) * 1024


# With waitid, an exit is seen before the pid is free for another process.
HAS_WAITID: Final = hasattr(os, "waitid")


def kill(pid: int) -> None:
    """Kill a child and its whole process group."""
    _kill_group(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def reap(pid: int) -> int | None:
    """Return a child's exit status, or None while the child lives.

    If the child has ended, kill its process group.
    """
    if HAS_WAITID:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        _kill_group(pid)
    ended_pid, status = os.waitpid(pid, os.WNOHANG)
    if not ended_pid:
        return None
    if not HAS_WAITID:
        _kill_group(pid)
    return status


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def count_threads() -> int:
    """Count this process's threads, including those of C libraries where the system knows."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return threading.active_count()


def list_sockets() -> set[int]:
    """Return the open sockets of this process."""
    files = (int(entry.name) for entry in Path("/dev/fd").iterdir())
    return {file for file in files if _is_socket(file)}


def _is_socket(file: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(file).st_mode)
    except OSError:
        return False


def open_scratch_file() -> IO[bytes]:
    """Open a new file that is deleted once the last process has closed it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("penstock"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


SOURCE_ROOT: Final = str(Path(__file__).parents[2])
RUN_MAIN: Final = (
    "import sys; sys.path.insert(0, {source_root!r}); from {module} import main; main()"
)


def module_command(module: str, *arguments: int) -> list[str]:
    """Return the command that calls a module's `main`, with this Python's flags (-W, -X, -O)."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    code = RUN_MAIN.format(source_root=SOURCE_ROOT, module=module)
    return [sys.executable, *flags, "-c", code, *map(str, arguments)]
