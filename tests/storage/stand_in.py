"""A server that speaks as much HTTP as a bucket's client needs, and fails as it is told."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

Reply = bytes | Literal["hang", "reset"]


def reply(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class StandIn:
    """Answers each request, counted by its method, with what `answer` says."""

    def __init__(self, answer: Callable[[str, int], Reply]) -> None:
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked: Counter[str] = Counter()

    async def __aenter__(self) -> "StandIn":
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    await self._serve_one(reader, writer)
        finally:
            writer.transport.abort()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method = head.partition(" ")[0]
        self.asked[method] += 1
        answer = self._answer(method, self.asked[method])
        if answer == "reset":
            raise ConnectionResetError
        for line in head.lower().split("\r\n"):
            if line.startswith("content-length:"):
                await reader.readexactly(int(line.partition(":")[2]))
        if isinstance(answer, str):
            await asyncio.Event().wait()
        else:
            writer.write(answer)
            await writer.drain()
