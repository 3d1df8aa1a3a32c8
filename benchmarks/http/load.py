"""Clients that enqueue over connections they keep, as fast as they get answers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

BODY = b'{"task":"send","args":{"to":"ada@example.org","text":"Hello Ada, here is your invoice."}}'
REQUEST = (
    b"POST /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer bench\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY)
) + BODY


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

    def __init__(self, seen: Seen, patience: float) -> None:
        self._seen = seen
        self._patience = patience
        self._buffer = b""
        self.over = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def begin(self, until: float) -> None:
        """Ask once, and again until then."""
        self._until = until
        self._since = time.perf_counter()
        self._transport.write(REQUEST)

    def _ask(self) -> None:
        self._since = time.perf_counter()
        if self._since < self._until:
            self._transport.write(REQUEST)
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
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(lambda: _Client(seen, patience), "127.0.0.1", port)
        clients.append(client)
    until = time.perf_counter() + seconds
    for client in clients:
        client.begin(until)
    await asyncio.wait([client.over for client in clients])
    return seen
