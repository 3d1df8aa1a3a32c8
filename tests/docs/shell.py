"""Runs the commands of a page in its project folder, as somebody at a terminal would."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded import Hold, Server
from penstock.embedded.install import Binaries
from pytest_penstock import RUNNING_SERVER
from tests.docs.page import Block
from tests.docs.said import ANYTHING, agrees, expect
from tests.fixtures.forking import forker
from tests.fixtures.pythons import pythons
from tests.fixtures.until import until

# These go on until they are stopped: with `^C` in the page, or at its end.
STAYS = re.compile(r"penstock work (?!.*--drain)|penstock (?:serve|up)\b|uvicorn ")
COMMAND = re.compile(r"^((?:.*\\\n)*.*\n)")
CODE = re.compile(r"#.* exit code (\d+)")
STOP = "^C"
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Command:
    """A `$ ` line with what the page shows of its output."""

    place: str
    text: str
    shown: str

    @property
    def code(self) -> int:
        """The exit code, 0 unless a comment behind the command says otherwise."""
        said = CODE.search(self.text)
        return int(said[1]) if said else 0


def commands_of(block: Block) -> list[Command]:
    """The commands of a console block; a `\\` at the end of a line continues it."""
    commands = []
    before, *rest = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not before.strip(), f"{block.place}: a console block begins with a `$ ` line"
    for text in rest:
        command, shown = COMMAND.split(text, 1)[1:]
        commands.append(Command(block.place, command.strip(), shown))
    return commands


class Running:
    """A command that stays; its output goes to a file, where it can be looked at meanwhile."""

    def __init__(self, command: Command, folder: Path, environment: dict[str, str]) -> None:
        self._command = command
        self._log = folder / f"command-{id(self)}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command.text}"],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def has_begun(self) -> None:
        """Wait until it says what the page shows, or anything at all if that shows nothing."""
        shown = self._command.shown.partition(STOP)[0] + ANYTHING

        def begun() -> bool:
            # In this order: what has ended has said all that it says.
            ended = self._process.poll() is not None
            said = self._log.read_text()
            assert not ended, f"{self._command.place}: {self._command.text} ended:\n{said}"
            return bool(said) and agrees(said, shown)

        try:
            await until(begun, PATIENCE)
        except TimeoutError:
            expect(self._command.place, self._log.read_text(), shown)

    async def stop(self) -> None:
        """Press Ctrl-C and compare all that was said with what the page shows."""
        self._process.send_signal(signal.SIGINT)
        code = await asyncio.to_thread(self._process.wait, PATIENCE)
        said = self._log.read_text()
        assert code == self._command.code, f"{self._command.text} ended with {code}:\n{said}"
        if STOP in self._command.shown:
            expect(self._command.place, said, self._command.shown.replace(f"{STOP}\n", ""))

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Shell:
    """Runs commands in a folder: `penstock`, `python` and `psql` are those of this test run."""

    def __init__(self, folder: Path, url: str | None, admin_url: str) -> None:
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if "PENSTOCK" not in name}
        forked = (forker().programs, pythons().programs)
        programs = (*forked, Path(sys.executable).parent, Binaries.find().bin_dir)
        self._environment = kept | {
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
            # Where the page has tests of its own, they need not start a server.
            RUNNING_SERVER: admin_url,
            # Installed here for other tests, and slow to load.
            "PYTEST_ADDOPTS": "-p no:schemathesis",
        }
        if url:
            self._environment["PENSTOCK_DATABASE_URL"] = url
        self._running: list[Running] = []
        self._server = None if url else Server(folder / ".penstock")
        self._hold: Hold | None = None

    async def run(self, command: Command) -> None:
        """Run a command and compare what it says, on stdout or else on stderr, with the page."""
        if STAYS.match(command.text):
            await self._start(command)
            return
        ended = await asyncio.to_thread(self._ended, ["/bin/sh", "-c", command.text])
        told = f"{command.place}: {command.text} ended with {ended.returncode}:"
        assert ended.returncode == command.code, f"{told}\n{ended.stdout}{ended.stderr}"
        await self._keep_server()
        if command.shown.strip():
            expect(command.place, ended.stdout or ended.stderr, command.shown)

    async def sql(self, block: Block) -> str:
        """Run a block in psql; what it printed."""
        assert "PENSTOCK_DATABASE_URL" in self._environment, f"{block.place}: there is no database"
        psql = 'exec psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 "$PENSTOCK_DATABASE_URL"'
        ended = await asyncio.to_thread(self._ended, ["/bin/sh", "-c", psql], block.text)
        assert ended.returncode == 0, f"{block.place}: {ended.stderr}"
        return ended.stdout

    async def close(self) -> None:
        """Stop what still runs."""
        try:
            for running in self._running:
                await running.stop()
        finally:
            for running in self._running:
                running.kill()
            if self._hold:
                await asyncio.to_thread(self._hold.release)

    async def _keep_server(self) -> None:
        """Let the server that a first command has made run on, for those that follow."""
        if self._server and not self._hold and self._server.data_dir.exists():
            self._hold = await asyncio.to_thread(self._server.acquire)

    async def _start(self, command: Command) -> None:
        running = Running(command, self._folder, self._environment)
        try:
            await running.has_begun()
        except BaseException:
            running.kill()
            raise
        self._running.append(running)
        if STOP in command.shown:
            self._running.remove(running)
            await running.stop()

    def _ended(self, command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
