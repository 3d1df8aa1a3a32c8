"""Run `penstock` as people do: as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import penstock
from penstock.embedded.install import Binaries
from tests.fixtures.forking import forker

SHOP = """
import asyncio, os, pathlib, signal, time
from penstock import Context, Penstock, Snooze

app = Penstock()

@app.task
async def greet(ctx: Context, name: str) -> str:
    ctx.logger.info("greeting")
    return f"Hello, {name}"

@app.task(max_attempts=1)
async def fail() -> None:
    raise ValueError("no such customer")

@app.task
async def snooze() -> Snooze:
    return Snooze(3600)

@app.task(queue="mail")
async def send(started: str, seconds: float) -> None:
    # It lasts for so long, or until somebody removes the file.
    file, end = pathlib.Path(started), time.monotonic() + seconds
    file.touch()
    while file.exists() and time.monotonic() < end:
        await asyncio.sleep(0.02)

@app.task(queue="mail")
def hang(started: str) -> None:
    pathlib.Path(started).touch()
    time.sleep(600)

@app.task(queue="mail")
async def die(ctx: Context) -> None:
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)

@app.task(queue="mail", isolate=False)
async def leave(code: int) -> None:
    os._exit(code)
"""


def psql_folder() -> Path:
    """Where the psql is that comes with Penstock."""
    return Binaries.find().bin_dir


class Run:
    """A command on its way; killed at the end of the test if it still runs."""

    def __init__(
        self, *arguments: str, folder: Path, environment: dict[str, str], stdin: int | None
    ) -> None:
        self._log = folder / f"command-{id(self)}.log"
        with self._log.open("wb") as log:
            self.process = forker().start(
                list(arguments), folder, environment, stdin=stdin, stdout=None, stderr=log.fileno()
            )

    @property
    def log(self) -> str:
        """What it has said on stderr so far."""
        return self._log.read_text()

    @property
    def output(self) -> str:
        """What it has written to stdout, once it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, timeout: float = 30.0) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(timeout)

    def close(self) -> None:
        self.process.close()


class Commands:
    """Commands in a folder with a small app, on a database."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(SHOP)
        kept = {key: value for key, value in os.environ.items() if "PENSTOCK" not in key}
        source = {"PYTHONPATH": str(Path(penstock.__file__).parents[1])}
        self.environment = kept | source | ({"PENSTOCK_DATABASE_URL": url} if url else {})
        self._runs: list[Run] = []

    def start(self, *arguments: str, with_stdin: bool = False) -> Run:
        """Start a command and let it run."""
        with Path(os.devnull).open() as nothing:
            run = Run(
                *arguments,
                folder=self.folder,
                environment=self.environment,
                stdin=None if with_stdin else nothing.fileno(),
            )
        self._runs.append(run)
        return run

    def run(
        self, *arguments: str, stdin: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return forker().run(list(arguments), self.folder, self.environment | environment, stdin)

    def shell(self, line: str, *, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a line as a shell does, where `penstock` is the command under test."""
        folders = (forker().programs, psql_folder(), self.environment["PATH"])
        path = os.pathsep.join(map(str, folders))
        return subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=self.folder,
            env=self.environment | {"PATH": path},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=90,
        )

    def close(self) -> None:
        for run in self._runs:
            run.close()
