"""Code that measured processes share: messages to the bench, and meters of jobs, CPU and memory."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec


class Orders(msgspec.Struct, frozen=True):
    """The first line that the bench sends to a measured process.

    A second line starts the measurement, and the end of the input stops it.
    """

    url: str
    schema: str
    overlapped: bool = False
    # How many child processes a worker may have. None stands for its default.
    children: int | None = None


class BenchReady(msgspec.Struct, frozen=True, tag="Ready"):
    """The measured process has imported everything and is connected."""


class BenchProgress(msgspec.Struct, frozen=True, tag="Progress"):
    """How many jobs are settled, and how many bytes of memory are in use."""

    settled: int
    rss: int | None = None


class Finished(msgspec.Struct, frozen=True, tag=True):
    """The measurements from start to stop. Times are those of the machine's monotonic clock."""

    samples: list[tuple[float, int]]
    cpu_seconds: float
    peak_rss: int | None
    server_cpu_seconds: float | None = None
    children_cpu_seconds: float | None = None
    stamps: dict[int, float] = {}


Message = BenchReady | BenchProgress | Finished

_encode = msgspec.json.Encoder().encode
_decode: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
decode_orders = msgspec.json.Decoder(Orders).decode


def encode_line(message: msgspec.Struct) -> bytes:
    return _encode(message) + b"\n"


def decode(text: bytes) -> Message:
    return _decode.decode(text)


def send(message: Message) -> None:
    """Send a message from the measured process to the bench."""
    sys.stdout.buffer.write(encode_line(message))
    sys.stdout.buffer.flush()


BYTES_PER_PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")


def cpu_seconds() -> float:
    """Return the user and system time of this process, in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss() -> int | None:
    """Return the memory that this process uses in bytes, or None if the system does not say."""
    try:
        return int(_STATM.read_text().split()[1]) * BYTES_PER_PAGE
    except OSError:
        return None


def peak_rss() -> int | None:
    """Return the peak memory of this process in bytes, or None if the system does not say.

    This does not read ru_maxrss, because on Linux a child starts with the value of its parent.
    """
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


def cpu_seconds_of_descendants(pid: int) -> float | None:
    """Return the seconds of CPU time of all descendants, or None if `/proc` cannot be read."""
    try:
        stats = {int(process.name): _stat(process) for process in Path("/proc").glob("[0-9]*")}
    except OSError:
        return None
    family, ticks = {pid}, 0
    while children := [child for child, stat in stats.items() if stat and stat[0] in family]:
        family.update(children)
        # A process's own time, and that of its children that have ended.
        ticks += sum(sum(stat[1:]) for stat in map(stats.pop, children) if stat)
    return ticks / TICKS_PER_SECOND if stats else None


def _stat(process: Path) -> tuple[int, ...]:
    """Return the parent of a process and its ticks of CPU time, or nothing if it has just ended."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ()
    return (int(fields[1]), *map(int, fields[11:15]))


def cpu_seconds_of_backends(pids: list[int]) -> float | None:
    """Return the seconds of CPU time of Postgres backends, or None if they run elsewhere."""
    ticks = 0
    for pid in pids:
        try:
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        except OSError:
            return None
        if "postgres" not in name:
            return None
        fields = rest.split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND if pids else None


SAMPLE_INTERVAL_S = 0.01
PROGRESS_INTERVAL_S = 0.2


class BenchParent:
    """The connection of a measured process to the bench, which sends orders, a start and a stop."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    @classmethod
    async def connect(cls) -> BenchParent:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        return cls(reader)

    async def read_orders(self) -> Orders:
        return decode_orders(await self._reader.readline())

    async def wait_for_go(self) -> None:
        await self._reader.readline()

    async def wait_for_stop(self) -> None:
        await self._reader.read()


class Meter:
    """Sample the count of settled jobs every 10 ms, and report it to the bench every 200 ms."""

    def __init__(self, settled: Callable[[], int]) -> None:
        self._settled = settled
        self._samples: list[tuple[float, int]] = []
        self._reported_at = 0.0
        self._cpu = cpu_seconds()

    async def watch(self) -> None:
        while True:
            self.sample()
            await asyncio.sleep(SAMPLE_INTERVAL_S)

    def sample(self) -> None:
        now, settled = time.monotonic(), self._settled()
        if not self._samples or self._samples[-1][1] != settled:
            self._samples.append((now, settled))
        if now - self._reported_at > PROGRESS_INTERVAL_S:
            self._report(now, settled)

    def _report(self, now: float, settled: int) -> None:
        self._reported_at = now
        send(BenchProgress(settled, rss()))

    def finish(self, **more: Any) -> Finished:
        """Take a last sample, and return all measurements."""
        self.sample()
        self._report(*self._samples[-1])
        return Finished(self._samples, cpu_seconds() - self._cpu, peak_rss(), **more)
