"""Processes that are forked from one that has imported what they need, and how they end."""

import atexit
import contextlib
import marshal
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO

import penstock
from tests.chaos.mother import MODULES

PATIENCE = 90.0


class Forked:
    """A fork that runs one of the modules, with the part of Popen that tests need."""

    def __init__(self, module: str, told: str, words: IO[bytes]) -> None:
        assert module in MODULES
        self._way, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._code: int | None = None
        with far:
            given = marshal.dumps((module, told, dict(os.environ)))
            socket.send_fds(_mother(), [given], [words.fileno(), far.fileno()])
        self._way.settimeout(PATIENCE)
        self.pid = int(self._way.recv(64))

    def poll(self) -> int | None:
        """What it ended with, if it has."""
        if self._code is None:
            self._way.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                self._hear()
        return self._code

    def wait(self) -> int:
        if self._code is None:
            self._way.settimeout(PATIENCE)
            self._hear()
        assert self._code is not None
        return self._code

    def _hear(self) -> None:
        self._code = int(self._way.recv(64))
        self._way.close()


@cache
def _mother() -> socket.socket:
    """The way to the one that is forked: one for all tests of this process; it ends with it."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sources = [Path(penstock.__file__).parents[1], Path(__file__).parents[2]]
    with far:
        mother = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.mother", str(far.fileno())],
            pass_fds=[far.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sources))},
        )

    def end() -> None:
        near.close()
        mother.wait(30)

    atexit.register(end)
    return near
