"""Ctrl-C at commands that work themselves, with real signals."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Commands

# On the first Ctrl-C it says so and takes its time: a generator, a task and a thread never end.
STUBBORN = """
import asyncio, time
from penstock.cli.framework import Command, group
from penstock.cli.process import run_interruptible

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
    run_interruptible(main(), "It goes on later.")

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


# One Ctrl-C, or several, while something goes on that does not end by them.
DEAF = """
import asyncio, sys, threading, time
from penstock.cli import process
from penstock.cli.framework import Command, group

async def swallows():
    print("begun", flush=True)
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            print("heard", flush=True)

async def leaves_a_task():
    task = asyncio.create_task(swallows())
    await asyncio.sleep(600)

async def leaves_a_thread():
    threading.Thread(target=time.sleep, args=[600]).start()
    print("begun", flush=True)
    await asyncio.sleep(600)

async def blocks():
    print("begun", flush=True)
    time.sleep(600)

app = group("deaf")

@app.callback()
def root(traceback: bool = False):
    ...

@app.command("go", cls=Command)
def go(main: str, stop_limit: float):
    process.STOP_LIMIT_S = stop_limit
    process.BLOCKED_LIMIT_S = stop_limit
    process.run_interruptible(globals()[main](), "It goes on later.")

app(prog_name="deaf")
"""


@pytest.mark.parametrize(
    ("main", "stop_limit", "presses"),
    [
        ("swallows", 0.5, 1),
        ("leaves_a_task", 600.0, 1),
        ("leaves_a_thread", 600.0, 1),
        ("blocks", 0.5, 2),
    ],
)
def test_ctrl_c_ends_a_command_whatever_still_runs(
    tmp_path: Path, main: str, stop_limit: float, presses: int
) -> None:
    environment = Commands(tmp_path, None).environment
    with subprocess.Popen(
        [sys.executable, "-c", DEAF, "go", main, str(stop_limit)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "begun\n"
        for _ in range(presses):
            run.send_signal(signal.SIGINT)
        _, log = run.communicate(timeout=60)
    assert (run.returncode, log) == (130, "It goes on later.\n")
