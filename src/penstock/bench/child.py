"""Start, watch and stop the processes that the bench measures."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from penstock.bench.measured import (
    BenchProgress,
    BenchReady,
    Finished,
    Message,
    decode,
    encode_line,
)
from penstock.errors import PenstockError


class BenchFailed(PenstockError):
    """A measurement could not be finished. The message says how far it got."""


MAX_LINE_BYTES = 256 * 1024 * 1024
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


def module_command(name: str) -> tuple[str, ...]:
    """Return the command that runs a module with this Python."""
    return (sys.executable, "-m", name)


class Child:
    """A measured process. It works after `go`, reports its progress, and ends after `stop`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout
        self.progress = BenchProgress(0)
        self.changed = asyncio.Event()
        self._reading: asyncio.Task[Finished] | None = None

    async def go(self) -> None:
        """Let the process begin to work, and read its messages from now on."""
        self._input.write(b"\n")
        await self._input.drain()
        self._reading = asyncio.create_task(self._read_until_finished())

    async def stop(self, *, within: float = STOP_TIMEOUT_S) -> Finished:
        """Ask the process to stop, wait until it has ended, and return its measurements."""
        assert self._reading is not None
        self._input.close()
        async with asyncio.timeout(within):
            finished = await self._reading
            await self._process.wait()
        return finished

    async def wait_until_settled(self, jobs: int, *, within: float) -> None:
        """Wait until the process has settled this many jobs.

        Raises `BenchFailed` if that takes longer than `within` seconds.
        """
        try:
            async with asyncio.timeout(within):
                while self.progress.settled < jobs and not self.has_ended:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            settled = self.progress.settled
            raise BenchFailed(f"Only {settled} of {jobs} jobs were settled.") from None

    @property
    def has_ended(self) -> bool:
        return self._reading is not None and self._reading.done()

    async def _read_until_finished(self) -> Finished:
        while True:
            message = await self._read_message()
            if isinstance(message, Finished):
                return message
            if isinstance(message, BenchProgress):
                self.progress = message
                self.changed.set()

    async def wait_until_ready(self) -> None:
        async with asyncio.timeout(START_TIMEOUT_S):
            message = await self._read_message()
        if not isinstance(message, BenchReady):
            raise BenchFailed(
                f"Expected a ready message from a benchmark process, but got {message!r}."
            )

    async def _read_message(self) -> Message:
        text = await self._output.readline()
        if not text:
            self.changed.set()
            raise BenchFailed("A benchmark process ended too early. Its own output above says why.")
        return decode(text)

    async def kill(self) -> None:
        """Kill the process if it still runs, and end the task that reads its messages."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


@asynccontextmanager
async def start_children(
    command: Sequence[str], orders: msgspec.Struct, count: int = 1, *, folder: Path | None = None
) -> AsyncIterator[list[Child]]:
    """Start processes in the folder, send each its orders, and wait until all are ready.

    Processes that still run at the end of the block are killed.
    """
    started: list[Child] = []
    try:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=MAX_LINE_BYTES,
            )
            started.append(Child(process))
            assert process.stdin is not None
            process.stdin.write(encode_line(orders))
        for child in started:
            await child.wait_until_ready()
        yield started
    finally:
        for child in started:
            await child.kill()
