"""Ctrl-C at commands that work themselves, with real signals."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.cli.command import Commands

# On the first Ctrl-C it says so and takes its time: a generator, a task and a thread never end.
STUBBORN = """
import asyncio, time
from penstock.cli.commands import Command, group
from penstock.cli.interrupting import alone

async def numbers():
    try:
        yield 1
        await asyncio.sleep(600)
    finally:
        print("ends", flush=True)
        await asyncio.sleep(600)

async def main():
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
    async for number in numbers():
        print("begun", flush=True)

app = group("stubborn")

@app.callback()
def root(traceback: bool = False):
    ...

@app.command("go", cls=Command)
def go():
    alone(main(), "It goes on later.")

app(prog_name="stubborn")
"""


def test_a_second_ctrl_c_ends_at_once_and_quietly(tmp_path: Path) -> None:
    environment = Commands(tmp_path, None).environment
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN, "go"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        for line in ("begun\n", "ends\n"):
            assert run.stdout.readline() == line
            run.send_signal(signal.SIGINT)
        output, log = run.communicate(timeout=60)
    assert (run.returncode, output, log) == (130, "", "It goes on later.\n")
