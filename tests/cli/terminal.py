"""A command at a real terminal: of a size, with keys to press."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from types import TracebackType
from typing import Self

import psutil

from tests.cli.command import Commands
from tests.fixtures.forking import forker

CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
PATIENCE = 30.0


class Terminal:
    """Runs one command, and sees what people see.

    >>> with Terminal(penstock, "top", columns=80, rows=24) as terminal:
    ...     terminal.wait_for("queues")
    ...     terminal.press("q")
    ...     assert terminal.end() == 0
    """

    def __init__(
        self,
        commands: Commands,
        *arguments: str,
        columns: int = 100,
        rows: int = 30,
        **environment: str,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.modes = termios.tcgetattr(slave)
        kept = {key: value for key, value in commands.environment.items() if key != "COLUMNS"}
        kept.pop("NO_COLOR", None)
        self._process = forker().start(
            list(arguments),
            commands.folder,
            kept | {"TERM": "xterm-256color"} | environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            terminal=True,
        )
        self._slave = slave
        self.raw = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.close()
        os.close(self._master)
        os.close(self._slave)

    @property
    def text(self) -> str:
        """What was written, without colours and cursor movements."""
        return CONTROL.sub("", self.raw).replace("\r", "")

    @property
    def present_modes(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read until it has written this."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.text:
            assert time.monotonic() < deadline, f"{text!r} never came; last:\n{self.text[-3000:]}"
            self._read(0.1)

    def wait_for_question(self, text: str) -> None:
        """Read until it has asked this, and waits for keys.

        Python loses a Ctrl-C that comes between its question and its read, until the next key.
        """
        self.wait_for(text)
        process, deadline = psutil.Process(self._process.pid), time.monotonic() + PATIENCE
        while process.status() != psutil.STATUS_SLEEPING:
            assert time.monotonic() < deadline, f"it reads nothing; last:\n{self.text[-3000:]}"
            self._read(0.01)

    def end(self) -> int:
        """Read until it has ended; the exit code."""
        deadline = time.monotonic() + PATIENCE
        while (code := self._process.poll()) is None:
            assert time.monotonic() < deadline, f"it goes on; last:\n{self.text[-3000:]}"
            self._read(0.1)
        while self._read(0.0):
            pass
        return code

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            self.raw += os.read(self._master, 65_536).decode(errors="replace")
        return bool(ready)
