"""A worker inside a program that does something else: here it serves lines over TCP.

Run it with `python examples/embedded_worker.py`.
"""

import asyncio

from penstock import Penstock

app = Penstock()


@app.task(queue="documents")
async def summarize(text: str) -> str:
    return f"{text.split()[0]} … ({len(text)} characters)"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each line becomes a job; its result is the answer."""
    while line := (await reader.readline()).decode().strip():
        job = await app.enqueue(summarize, line)
        writer.write(f"{await app.wait(job, timeout=30)}\n".encode())
        await writer.drain()
    writer.close()


async def main() -> None:
    async with app, app.worker(queues={"documents": 50}):
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"Water runs down the penstock to the turbine\n")
        print((await reader.readline()).decode().strip())
        writer.close()
        server.close()


if __name__ == "__main__":
    asyncio.run(main())
