"""Examine the server's processes: find them, check that they answer, and read what they log."""

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


def command_line(pid: int) -> str | None:
    """Return the command line of a process, or None if it has ended or is a zombie."""
    return _from_proc(pid) if (PROC / "self").exists() else _from_ps().get(pid)


def command_lines() -> dict[int, str]:
    """Return the command lines of all living processes."""
    if not (PROC / "self").exists():
        return _from_ps()
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return {pid: line for pid in pids if (line := _from_proc(pid)) is not None}


def _from_proc(pid: int) -> str | None:
    try:
        # The format is "123 (any name) S …". The name may contain brackets, so split at the last.
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


PSQL_NO_CONNECTION = 2  # psql's exit code if it cannot connect


def provision(program: Path, url: str) -> bool:
    """Create the application's role and database, or return False if the server does not answer."""
    script = (files("penstock.embedded") / "provision.sql").read_text()
    run = subprocess.run(
        [program, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", url],
        input=script,
        capture_output=True,
        text=True,
        errors="replace",
        env=_environment(),
    )
    if run.returncode not in (0, PSQL_NO_CONNECTION):
        raise EmbeddedError(
            f"The embedded Postgres runs, but its database could not be set up: "
            f"{run.stderr.strip()}"
        )
    return run.returncode == 0


def _environment() -> dict[str, str]:
    # Variables such as PGUSER and PGOPTIONS are meant for other servers.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return env | {"PGCONNECT_TIMEOUT": "10", "LC_ALL": "C"}


START_LOG = "start.log"
"""What Postgres logs before it has opened the log in the folder `log`. Each start begins anew."""


def describe_last_log_error(data: Path) -> str:
    """Describe the last fatal error in the server's log, and name the log, for an error message."""
    logs = sorted(_logs(data), key=lambda log: log.stat().st_mtime)
    if not logs:
        return "It has left no log."
    lines = logs[-1].read_text(errors="replace").splitlines()
    fatal = [at for at, line in enumerate(lines) if "FATAL" in line or "PANIC" in line]
    if not fatal:
        return f"Its log {logs[-1]} names no cause."
    # The cause is often in the line before, and a hint in the line after.
    quote = lines[max(fatal[-1] - 1, 0) : fatal[-1] + 2]
    return f"Its log says: {' / '.join(quote)} (from {logs[-1]})"


def _logs(data: Path) -> list[Path]:
    logs = [*data.glob("log/*.log"), data / START_LOG]
    return [log for log in logs if log.exists() and log.stat().st_size > 0]


ORPHANS_TIMEOUT_S = 5.0
# A postmaster's command line is "/any folder/bin/postgres -D …". Its processes have titles such as
# "postgres: name: writer".
POSTGRES = re.compile(r"(.*/)?postgres(:| -D )")


@dataclass(frozen=True)
class Postmaster:
    pid: int
    socket_dir: Path | None
    """None until the server has opened its socket."""


def find(data: Path, name: str) -> Postmaster | None:
    """Return the living postmaster of the data folder, or None.

    After a crash, the pid file is still there, and another process may have the pid by now. The
    command line shows whether it is the postmaster. It contains `name` if Penstock started the
    server, and the path of the folder if somebody started it by hand.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None
    line = command_line(pid) or ""
    if not POSTGRES.match(line) or (name not in line and str(data) not in line):
        return None
    # The lines are 1 pid, 2 data folder, 3 start time, 4 port, 5 socket folder, …
    return Postmaster(pid, Path(lines[4]) if len(lines) > 4 and lines[4] else None)


def end_orphans(name: str) -> None:
    """End the processes that a killed postmaster has left behind.

    Idle processes end by themselves. A busy process may go on writing for a while, and Postgres
    does not start until all of them have ended. Killing them is safe, because the next start
    recovers from the write-ahead log.
    """
    deadline = time.monotonic() + ORPHANS_TIMEOUT_S
    _signal(_orphans(name), signal.SIGQUIT)
    while pids := _orphans(name):
        if time.monotonic() > deadline + ORPHANS_TIMEOUT_S:
            raise EmbeddedError(
                f"The Postgres processes {pids} of a server that has died do not end, even when "
                "killed. Look at what they wait for (a hanging disk?) and try again."
            )
        if time.monotonic() > deadline:
            _signal(pids, signal.SIGKILL)
        time.sleep(0.02)


def _orphans(name: str) -> list[int]:
    # Postgres puts its cluster_name into the title of each process: "postgres: <name>: …".
    lines = command_lines()
    return [pid for pid, line in lines.items() if name in line and POSTGRES.match(line)]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
