"""`make test-stopped` stops the processes of a test run, and lets them run again."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "stop_randomly.py"
TREE = [sys.executable, "-m", "tests.fixtures_test.tree"]


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the script with a command; both are ended after the test if they still run."""
    started: list[subprocess.Popen[str]] = []

    def begin(command: list[str], **options: float) -> "subprocess.Popen[str]":
        given = [f"--{name}={value}" for name, value in options.items()]
        script = [sys.executable, str(SCRIPT), *given, *command]
        started.append(
            subprocess.Popen(script, stdout=subprocess.PIPE, text=True, cwd=SCRIPT.parents[1])
        )
        return started[-1]

    yield begin
    for process in started:
        process.terminate()
        process.communicate()


def test_children_and_background_processes_stop_and_resume(start: Start) -> None:
    running = start([*TREE, "stops"], seed=5, longest=0.1, between=0.01)
    printed, _ = running.communicate(timeout=60)
    assert running.returncode == 7
    first, last = printed.splitlines()
    assert first == "Processes are stopped at random, with seed 5."
    assert "with seed 5: python" in last


def test_a_process_that_a_test_has_stopped_stays_stopped(start: Start) -> None:
    running = start([*TREE, "freezes"], shortest=0.05, longest=0.1, between=0.01)
    running.communicate(timeout=60)
    assert running.returncode == 8


def test_an_end_by_signal_is_passed_on_to_the_command(start: Start) -> None:
    running = start(["sleep", "60"], shortest=0.5, longest=0.5, between=0.001)
    assert running.stdout is not None
    running.stdout.readline()
    time.sleep(0.1)  # By now it is most likely stopped; the signal ends it either way.
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM
