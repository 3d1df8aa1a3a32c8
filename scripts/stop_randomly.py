"""Run a command while its processes stand still at random moments.

    python scripts/stop_randomly.py --seed 7 .venv/bin/pytest -n 2 tests/worker

On a busy machine any process can wait at any instruction: between two statements, between a signal
and its handler, between a check and the action that relies on it. This script finds what breaks
then. One or two processes at a time get SIGSTOP, and SIGCONT up to two seconds later.

It chooses among all descendants of the command, background servers included: it adopts processes
whose parent has ended (see prctl(2), PR_SET_CHILD_SUBREAPER), so none leaves its tree. The seed
fixes the choices and durations, but not what the processes do meanwhile: the same seed often finds
the same failure again, not always.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
PR_SET_CHILD_SUBREAPER = 36
RUNNING = "RSDI"  # neither stopped nor dead
STOP_BIT = 1 << (signal.SIGSTOP - 1)
MAX_STOPPED_AT_ONCE = 2
MAX_CHOICES_OF_A_KIND = 3
ARRIVAL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Process:
    """A line of /proc/<pid>/stat. The start time tells it from a later one with the same pid."""

    pid: int
    name: str
    state: str
    parent: int
    started: int


def read_process(pid: int) -> Process | None:
    """The process with this pid, or None if there is none any more."""
    try:
        line = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name may contain spaces and parentheses: it ends at the last one.
    head, _, tail = line.rpartition(")")
    fields = tail.split()
    return Process(pid, head.partition("(")[2], fields[0], int(fields[1]), int(fields[19]))


def descendants(root: int) -> list[Process]:
    """All processes below this one, parents first."""
    children = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (process := read_process(int(entry.name))):
            children[process.parent].append(process)
    below: list[Process] = []
    parents = [root]
    while parents:
        found = sorted(children.pop(parents.pop(), []), key=lambda process: process.pid)
        below += found
        parents += [process.pid for process in found]
    return below


def choose(processes: list[Process], rng: random.Random) -> list[Process]:
    """One or two running processes. At most three of a kind can be chosen.

    A Postgres has a dozen background processes that hardly anything waits for. A server and its
    children are two kinds.
    """
    names = {process.pid: process.name for process in processes}
    kinds = defaultdict(list)
    for process in processes:
        if process.state in RUNNING:
            kinds[process.name, names.get(process.parent) == process.name].append(process)
    chosen_from = [
        process
        for _, kind in sorted(kinds.items())
        for process in rng.sample(kind, min(len(kind), MAX_CHOICES_OF_A_KIND))
    ]
    return rng.sample(chosen_from, min(rng.randint(1, MAX_STOPPED_AT_ONCE), len(chosen_from)))


def stop(process: Process) -> bool:
    """Stop it; False if it is gone."""
    if look(process) is None or not send(process, signal.SIGSTOP):
        return False
    # The signal is pending until the process gets a processor, and then no one else's (see resume).
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
    while (now := look(process)) and now.state in RUNNING and time.monotonic() < deadline:
        time.sleep(0.001)
    return now is not None


def resume(process: Process) -> None:
    """Let it run again, unless somebody else has stopped it meanwhile: a test may freeze a worker.

    A SIGSTOP to a process that is stopped already stays pending. SIGCONT would discard it.
    """
    now = look(process)
    if now is not None and not (now.state == "T" and is_stop_pending(now.pid)):
        send(now, signal.SIGCONT)


def look(process: Process) -> Process | None:
    """The process as it is now, or None if it is gone and its pid perhaps another's."""
    now = read_process(process.pid)
    return now if now is not None and now.started == process.started else None


def is_stop_pending(pid: int) -> bool:
    try:
        status = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return False
    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) & STOP_BIT)


def send(process: Process, number: signal.Signals) -> bool:
    """Send a signal; False if the process is gone."""
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


class Run:
    """The command, from its start until it has ended."""

    def __init__(self, command: list[str]) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        self.ended = threading.Event()
        self.exit_code = 0
        self._pid = os.posix_spawnp(command[0], command, os.environ)
        threading.Thread(target=self._reap, daemon=True).start()

    def _reap(self) -> None:
        """Wait for the command, and for every orphan: without that its zombie stays for ever."""
        while not self.ended.is_set():
            pid, status = os.waitpid(-1, 0)
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
                self.exit_code = code if code >= 0 else 128 - code
                self.ended.set()

    def interrupt(self, number: int) -> None:
        """Pass a signal on to the command. It decides when to end."""
        if not self.ended.is_set():
            os.kill(self._pid, number)


def stop_at_random(
    run: Run, rng: random.Random, shortest: float, longest: float, between: float
) -> Counter[str]:
    """Stop processes until the command has ended; the number of stops by the processes' names."""
    stops: Counter[str] = Counter()
    while not run.ended.wait(rng.uniform(0, 2 * between)):
        # As many stops of 0.1 to 0.2 seconds as of 1 to 2: most windows are short.
        duration = shortest * (longest / shortest) ** rng.random()
        stopped = [process for process in choose(descendants(os.getpid()), rng) if stop(process)]
        try:
            stops.update(process.name for process in stopped)
            # The command may be stopped itself, so this does not wait for its end.
            time.sleep(duration)
        finally:
            for process in stopped:
                resume(process)
    return stops


def main() -> int:
    options = parsed()
    rng = random.Random(options.seed)
    began = time.monotonic()
    run = Run(options.command)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: run.interrupt(number))
    # Ctrl-C reaches the command as well: the terminal sends it to the whole process group.
    signal.signal(signal.SIGINT, lambda number, _: None)
    print(f"Processes are stopped at random, with seed {options.seed}.", flush=True)
    stops = stop_at_random(run, rng, options.shortest, options.longest, options.between)
    counts = ", ".join(f"{name} {count}" for name, count in stops.most_common())
    print(
        f"{stops.total()} stops in {time.monotonic() - began:.0f} s with seed {options.seed}"
        + (f": {counts}." if counts else "."),
        flush=True,
    )
    return run.exit_code


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--shortest", type=float, default=0.05, help="seconds of a stop, at least")
    parser.add_argument("--longest", type=float, default=2.0, help="seconds of a stop, at most")
    parser.add_argument(
        "--between", type=float, default=0.2, help="seconds between two, on average"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run, with its arguments")
    options = parser.parse_args()
    if not options.command:
        parser.error("Name the command to run, such as .venv/bin/pytest tests/worker.")
    if shutil.which(options.command[0]) is None:
        parser.error(f"There is no program {options.command[0]}.")
    return options


if __name__ == "__main__":
    sys.exit(main())
