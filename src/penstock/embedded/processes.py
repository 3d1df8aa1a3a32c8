"""Which processes are alive: a zombie is not, though kill(pid, 0) and Postgres both think so."""

import subprocess
from pathlib import Path

PROC = Path("/proc")


def command(pid: int) -> str | None:
    """The command line of a living process; None if it has ended, reaped or not."""
    return _from_proc(pid) if (PROC / "self").exists() else _from_ps().get(pid)


def commands() -> dict[int, str]:
    """The command lines of all living processes."""
    if not (PROC / "self").exists():
        return _from_ps()
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return {pid: line for pid in pids if (line := _from_proc(pid)) is not None}


def _from_proc(pid: int) -> str | None:
    try:
        # "123 (any name) S …": the name may contain anything, so look behind the last bracket.
        state = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        line = (PROC / str(pid) / "cmdline").read_text(errors="replace")
    except (OSError, IndexError):
        return None
    return None if state in "ZX" else line.replace("\0", " ").strip()


def _from_ps() -> dict[int, str]:
    # macOS has no /proc; slim Linux images have no ps.
    run = subprocess.run(
        ["ps", "-axww", "-o", "pid=,stat=,command="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in run.stdout.splitlines()]
    return {int(row[0]): row[2] for row in rows if len(row) == 3 and not row[1].startswith("Z")}
