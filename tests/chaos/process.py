"""A process of the scene: started, frozen, killed; its words kept in a file."""

import os
import signal
from pathlib import Path
from typing import Any

import msgspec

import penstock
from tests.fixtures.pythons import pythons
from tests.fixtures.until import until

START_UP = 60.0


class Process:
    """`python -m <module> <settings as JSON>` in a process group of its own."""

    def __init__(self, module: str, settings: dict[str, Any]) -> None:
        self.name: str = settings["name"]
        self._folder = Path(settings["folder"])
        told = msgspec.json.encode(settings).decode()
        sources = [Path(penstock.__file__).parents[1], Path(__file__).parents[2]]
        with self.words_path.open("ab") as words, Path(os.devnull).open() as nothing:
            self._process = pythons().start(
                ["-m", module, told],
                Path.cwd(),
                os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sources))},
                stdin=nothing.fileno(),
                stdout=words.fileno(),
                stderr=words.fileno(),
            )

    @property
    def words_path(self) -> Path:
        return self._folder / f"{self.name}.txt"

    @property
    def words(self) -> str:
        """All that it said to people."""
        return self.words_path.read_text()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    async def ready(self) -> None:
        """Wait until it works."""

        def is_ready() -> bool:
            assert self.is_running, f"{self.name} ended with {self.code}:\n{self.words}"
            return (self._folder / "ready" / self.name).exists()

        await until(is_ready, START_UP, what=f"{self.name} to be ready")

    @property
    def code(self) -> int | None:
        """What it ended with; the negative number of the signal that ended it."""
        return self._process.poll()

    async def ended(self, timeout: float = 30.0) -> int:
        await until(lambda: not self.is_running, timeout, what=f"{self.name} to end")
        return self._process.wait()

    async def frozen(self, timeout: float = 30.0) -> None:
        """Wait until it has frozen itself at its failpoint."""
        stat = Path(f"/proc/{self._process.pid}/stat")

        def is_stopped() -> bool:
            assert self.is_running, f"{self.name} ended with {self.code}:\n{self.words}"
            return stat.read_text().rpartition(")")[2].split()[0] == "T"

        await until(is_stopped, timeout, what=f"{self.name} to freeze")

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it and all it started; harmless if it has ended."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running:
            os.killpg(self._process.pid, number)
