"""The server's first process, found by its pid file but believed only if it is really ours."""

import os
import re
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded import processes
from penstock.errors import EmbeddedError

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
    line = processes.command(pid) or ""
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
    return [
        pid for pid, line in processes.commands().items() if name in line and POSTGRES.match(line)
    ]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
