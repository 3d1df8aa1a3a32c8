"""A measured process, as the bench sees it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from penstock.bench.measured import Finished, Message, Progress, Ready, decode, encode_line
from penstock.errors import PenstockError


class BenchFailed(PenstockError):
    """A measurement could not be finished; the message says how far it came."""


LONGEST_LINE = 256 * 1024 * 1024
START_SECONDS = 60.0
STOP_SECONDS = 60.0


def module(name: str) -> tuple[str, ...]:
    """The command that runs a module with this very Python."""
    return (sys.executable, "-m", name)


class Child:
    """Started and connected, then told to go, then told to stop; says how far it is."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout
        self.progress = Progress(0)
        self.changed = asyncio.Event()
        self._finished: asyncio.Task[Finished] | None = None

    async def go(self) -> None:
        self._input.write(b"\n")
        await self._input.drain()
        self._finished = asyncio.create_task(self._listen())

    async def stop(self, *, within: float = STOP_SECONDS) -> Finished:
        """Let it finish; what it saw."""
        assert self._finished is not None
        self._input.close()
        async with asyncio.timeout(within):
            finished = await self._finished
            await self._process.wait()
        return finished

    async def settled(self, jobs: int, *, within: float) -> None:
        """Wait until it has settled so many jobs."""
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
        return self._finished is not None and self._finished.done()

    async def _listen(self) -> Finished:
        while True:
            message = await self._next()
            if isinstance(message, Finished):
                return message
            if isinstance(message, Progress):
                self.progress = message
                self.changed.set()

    async def ready(self) -> None:
        async with asyncio.timeout(START_SECONDS):
            message = await self._next()
        if not isinstance(message, Ready):
            raise BenchFailed(f"A measured process said {message!r} before it was ready.")

    async def _next(self) -> Message:
        text = await self._output.readline()
        if not text:
            self.changed.set()
            raise BenchFailed("A measured process ended too soon; its own words are above.")
        return decode(text)

    async def end(self) -> None:
        """Whatever happened, leave nothing behind."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        if self._finished is not None:
            self._finished.cancel()
            await asyncio.gather(self._finished, return_exceptions=True)


@asynccontextmanager
async def children(
    command: Sequence[str], orders: msgspec.Struct, count: int = 1, *, folder: Path | None = None
) -> AsyncIterator[list[Child]]:
    """Processes that are ready to go, each with its orders, started in the folder."""
    started: list[Child] = []
    try:
        for _ in range(count):
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LONGEST_LINE,
            )
            started.append(Child(process))
            assert process.stdin is not None
            process.stdin.write(encode_line(orders))
        for child in started:
            await child.ready()
        yield started
    finally:
        for child in started:
            await child.end()
