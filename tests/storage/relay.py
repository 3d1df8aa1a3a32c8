"""A way to a server on which bytes are counted, held up and cut off."""

import asyncio
from contextlib import suppress


class Relay:
    """Listens on a port of its own and passes everything on to another."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.passed = 0
        self.arrived = asyncio.Condition()

    async def __aenter__(self) -> "Relay":
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.wait_closed()

    def hold(self) -> None:
        """Pass nothing on, and tell nobody."""
        self._open.clear()

    async def until(self, passed: int) -> None:
        """Wait until this many bytes went to the server."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: self.passed >= passed)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        ends = [writer]
        try:
            with suppress(OSError):
                inner, outer = await asyncio.open_connection("127.0.0.1", self._to)
                ends.append(outer)
                back = asyncio.create_task(self._pass(inner, writer, count=False))
                try:
                    await self._pass(reader, outer, count=True)
                finally:
                    back.cancel()
                    await asyncio.gather(back, return_exceptions=True)
        finally:
            for end in ends:
                end.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, count: bool
    ) -> None:
        while data := await reader.read(65_536):
            await self._open.wait()
            writer.write(data)
            await writer.drain()
            if count:
                async with self.arrived:
                    self.passed += len(data)
                    self.arrived.notify_all()
