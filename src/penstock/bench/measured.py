"""A measured process: its messages to the bench, samples of its progress, and what it used."""

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
    """The bench's first line. The second says go; the end of the input says stop."""

    url: str
    schema: str
    overlapped: bool = False
    # How many child processes a worker may have; None for its default.
    children: int | None = None


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Everything is imported and connected."""


class Progress(msgspec.Struct, frozen=True, tag=True):
    """So many jobs are settled, and so many bytes of memory are in use."""

    settled: int
    rss: int | None = None


class Finished(msgspec.Struct, frozen=True, tag=True):
    """What was seen from the start to the stop. Times are of the machine's monotonic clock."""

    samples: list[tuple[float, int]]
    cpu_seconds: float
    peak_rss: int | None
    server_cpu_seconds: float | None = None
    children_cpu_seconds: float | None = None
    stamps: dict[int, float] = {}


Message = Ready | Progress | Finished

_encode = msgspec.json.Encoder().encode
_decode: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
decode_orders = msgspec.json.Decoder(Orders).decode


def encode_line(message: msgspec.Struct) -> bytes:
    return _encode(message) + b"\n"


def decode(text: bytes) -> Message:
    return _decode.decode(text)


def send(message: Message) -> None:
    """For the measured process: tell the bench."""
    sys.stdout.buffer.write(encode_line(message))
    sys.stdout.buffer.flush()


BYTES_PER_PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")


def cpu_seconds() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss() -> int | None:
    """Bytes of memory in use now."""
    try:
        return int(_STATM.read_text().split()[1]) * BYTES_PER_PAGE
    except OSError:
        return None


def peak_rss() -> int | None:
    """The most bytes of memory that were in use.

    Not ru_maxrss: on Linux a child begins with its parent's.
    """
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kilobytes) * 1024


def cpu_seconds_below(pid: int) -> float | None:
    """User and system time of all processes that this one has started, and they in turn."""
    try:
        parents = {int(each.name): _stat(each) for each in Path("/proc").glob("[0-9]*")}
    except OSError:
        return None
    below, ticks = {pid}, 0
    while found := [each for each, stat in parents.items() if stat and stat[0] in below]:
        below.update(found)
        # Its own time, and that of those who have ended.
        ticks += sum(sum(stat[1:]) for stat in map(parents.pop, found) if stat)
    return ticks / TICKS_PER_SECOND if parents else None


def _stat(process: Path) -> tuple[int, ...]:
    """The parent of a process, and the ticks it has used; nothing if it has just ended."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ()
    return (int(fields[1]), *map(int, fields[11:15]))


def cpu_seconds_of(pids: list[int]) -> float | None:
    """User and system time of Postgres backends on this machine; None if they are elsewhere."""
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


class Parent:
    """The bench, as a measured process sees it."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    @classmethod
    async def connect(cls) -> Parent:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        return cls(reader)

    async def orders(self) -> Orders:
        return decode_orders(await self._reader.readline())

    async def go(self) -> None:
        await self._reader.readline()

    async def stop(self) -> None:
        await self._reader.read()


class Meter:
    """Looks every few milliseconds how many jobs are settled, and tells the bench now and then."""

    def __init__(self, settled: Callable[[], int]) -> None:
        self._settled = settled
        self._samples: list[tuple[float, int]] = []
        self._told_at = 0.0
        self._cpu = cpu_seconds()

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(SAMPLE_INTERVAL_S)

    def look(self) -> None:
        now, settled = time.monotonic(), self._settled()
        if not self._samples or self._samples[-1][1] != settled:
            self._samples.append((now, settled))
        if now - self._told_at > PROGRESS_INTERVAL_S:
            self._tell(now, settled)

    def _tell(self, now: float, settled: int) -> None:
        self._told_at = now
        send(Progress(settled, rss()))

    def finished(self, **more: Any) -> Finished:
        """Look once more; all that was seen."""
        self.look()
        self._tell(*self._samples[-1])
        return Finished(self._samples, cpu_seconds() - self._cpu, peak_rss(), **more)
