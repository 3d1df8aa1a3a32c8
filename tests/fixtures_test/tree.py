"""Processes to be stopped at random: a child, a background process, and many that end at once.

`stops` ends with 7 once it has seen both stopped and running again. `freezes` stops the child
itself and ends with 8 if that still stands after the background process was stopped some more.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SLEEPER = "import time; time.sleep(60)"
IN_BACKGROUND = (
    "import subprocess, sys;"
    f"command = [sys.executable, '-c', {SLEEPER!r}];"
    "child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL);"
    "print(child.pid)"
)


def wait_for(pid: int, *, stopped: bool) -> None:
    """Return once a process is stopped, or is not."""
    while (state(pid) == "T") is not stopped:
        subprocess.run(["true"], check=True)
        time.sleep(0.001)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def main(how: str) -> int:
    child = subprocess.Popen([sys.executable, "-c", SLEEPER]).pid
    # Its parent ends at once.
    started = subprocess.run(
        [sys.executable, "-c", IN_BACKGROUND], check=True, stdout=subprocess.PIPE
    )
    background = int(started.stdout)
    try:
        if how == "freezes":
            # The script has stopped it and is about to let it run again.
            wait_for(child, stopped=True)
            os.kill(child, signal.SIGSTOP)
            for _ in range(3):
                wait_for(background, stopped=True)
                wait_for(background, stopped=False)
            return 8 if state(child) == "T" else 1
        for pid in (child, background):
            wait_for(pid, stopped=True)
            wait_for(pid, stopped=False)
        return 7
    finally:
        os.kill(child, signal.SIGKILL)
        os.kill(background, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
