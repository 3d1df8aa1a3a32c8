"""Clients that enqueue over connections they keep, as fast as they get answers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

BODY = b'{"task":"send","args":{"to":"ada@example.org","text":"Hello Ada, here is your invoice."}}'


def posted(path: bytes, body: bytes) -> bytes:
    """A request, as it is sent."""
    return (
        b"POST /api/v1%b HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer bench\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % (path, len(body))
    ) + body


ONE_JOB = posted(b"/jobs", BODY)


def many_jobs(number: int) -> bytes:
    """A request with so many of the same."""
    return posted(b"/bulk/jobs", b'{"jobs":[%b]}' % b",".join([BODY] * number))


@dataclass
class Seen:
    """How many answers of each status there were, and how long those took that stored a job."""

    seconds: float
    statuses: Counter[int] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.statuses[202] / self.seconds

    @property
    def expected(self) -> int:
        """Answers that are one of those that there should be."""
        return self.statuses[202] + self.statuses[503]

    def quantile(self, share: float) -> float:
        ordered = sorted(self.times) or [0.0]
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class _Client(asyncio.Protocol):
    """Asks again as soon as it is answered; a 503 is answered with patience, if it has some."""

    def __init__(self, seen: Seen, request: bytes, patience: float) -> None:
        self._seen = seen
        self._request = request
        self._patience = patience
        self._buffer = b""
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def begin(self, is_wanted: Callable[[], bool]) -> None:
        """Ask, and again when that is answered, for as long as one more is wanted."""
        self._is_wanted = is_wanted
        self._ask()

    def _ask(self) -> None:
        self._since = time.perf_counter()
        if self._is_wanted():
            self._transport.write(self._request)
        else:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        self._buffer = b""
        status = int(head[9:12])
        self._seen.statuses[status] += 1
        if status == 202:
            self._seen.times.append(time.perf_counter() - self._since)
            self._ask()
        else:
            asyncio.get_running_loop().call_later(self._patience, self._ask)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)


async def load(port: int, connections: int, seconds: float, *, patience: float = 0.0) -> Seen:
    """Enqueue for so long."""
    seen = Seen(seconds)
    clients = await _connected(port, connections, lambda: _Client(seen, ONE_JOB, patience))
    until = time.perf_counter() + seconds
    await _over(clients, lambda: time.perf_counter() < until)
    return seen


async def send(port: int, connections: int, request: bytes, times: int) -> Seen:
    """Send a request so many times, whatever the answers are."""
    seen, left = Seen(0.0), iter(range(times))
    clients = await _connected(port, connections, lambda: _Client(seen, request, 0.0))
    began = time.perf_counter()
    await _over(clients, lambda: next(left, None) is not None)
    seen.seconds = time.perf_counter() - began
    return seen


async def _connected(port: int, number: int, make: Callable[[], _Client]) -> list[_Client]:
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(make, "127.0.0.1", port) for _ in range(number)]
    return [client for _, client in made]


async def _over(clients: Sequence[_Client], is_wanted: Callable[[], bool]) -> None:
    for client in clients:
        client.begin(is_wanted)
    await asyncio.wait([client.over for client in clients])
