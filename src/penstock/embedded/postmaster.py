"""The server's processes: whether they are alive, whether they answer, and what Postgres logs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from penstock.errors import EmbeddedError

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


NO_CONNECTION = 2  # psql's exit code for it


def provision(program: Path, url: str) -> bool:
    """Give the application its role and database; False if the server does not answer yet."""
    script = (files("penstock.embedded") / "provision.sql").read_text()
    run = subprocess.run(
        [program, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url],
        input=script,
        capture_output=True,
        text=True,
        errors="replace",
        env=_environment(),
    )
    if run.returncode not in (0, NO_CONNECTION):
        raise EmbeddedError(
            f"The embedded Postgres runs, but its database could not be set up: "
            f"{run.stderr.strip()}"
        )
    return run.returncode == 0


def _environment() -> dict[str, str]:
    # PGUSER, PGOPTIONS and their like are meant for other servers.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return env | {"PGCONNECT_TIMEOUT": "10", "LC_ALL": "C"}


START_LOG = "start.log"
"""For what is said before the log in the folder `log` is open; new at each start."""


def last_words(data: Path) -> str:
    """Its last grave complaint and where to read more, as a sentence for an error message."""
    logs = sorted(_logs(data), key=lambda log: log.stat().st_mtime)
    if not logs:
        return "It has left no log."
    lines = logs[-1].read_text(errors="replace").splitlines()
    grave = [at for at, line in enumerate(lines) if "FATAL" in line or "PANIC" in line]
    if not grave:
        return f"Its log {logs[-1]} names no cause."
    # The cause is often in the line before, a hint in the line after.
    said = lines[max(grave[-1] - 1, 0) : grave[-1] + 2]
    return f"Its log says: {' / '.join(said)} (from {logs[-1]})"


def _logs(data: Path) -> list[Path]:
    found = [*data.glob("log/*.log"), data / START_LOG]
    return [log for log in found if log.exists() and log.stat().st_size > 0]


ORPHANS_LEAVE_WITHIN = 5.0
# "/any folder/bin/postgres -D …" is a postmaster, "postgres: name: writer" a process of one.
POSTGRES = re.compile(r"(.*/)?postgres(:| -D )")


@dataclass(frozen=True)
class Postmaster:
    pid: int
    socket_dir: Path | None
    """None while the server is still opening its socket."""


def find(data: Path, name: str) -> Postmaster | None:
    """The living postmaster of the data folder, whose processes carry `name`.

    After a crash the pid file stays behind, and its number may belong to a zombie or to a
    stranger by now. The command line tells: ours carries the name, and one that somebody started
    by hand carries the folder.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None
    line = command(pid) or ""
    if not POSTGRES.match(line) or (name not in line and str(data) not in line):
        return None
    # 1 pid, 2 data folder, 3 start time, 4 port, 5 socket folder, …
    return Postmaster(pid, Path(lines[4]) if len(lines) > 4 and lines[4] else None)


def end_orphans(name: str) -> None:
    """End the processes that a killed postmaster has left behind.

    Idle ones notice by themselves, a busy one may go on writing for a while; Postgres refuses to
    start as long as one is there. Killing them is safe: the next start recovers from the log.
    """
    deadline = time.monotonic() + ORPHANS_LEAVE_WITHIN
    _signal(_orphans(name), signal.SIGQUIT)
    while pids := _orphans(name):
        if time.monotonic() > deadline + ORPHANS_LEAVE_WITHIN:
            raise EmbeddedError(
                f"The Postgres processes {pids} of a server that has died do not end, even when "
                "killed. Look at what they wait for (a hanging disk?) and try again."
            )
        if time.monotonic() > deadline:
            _signal(pids, signal.SIGKILL)
        time.sleep(0.02)


def _orphans(name: str) -> list[int]:
    # Postgres puts its cluster_name into the title of each process: "postgres: <name>: …".
    return [pid for pid, line in commands().items() if name in line and POSTGRES.match(line)]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
