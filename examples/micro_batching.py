"""Many jobs share one call of a model API; a page that it refuses fails alone.

Run it with `python examples/micro_batching.py`. The service stands in for an embedding API: it
takes a list of texts and answers with a list of vectors, unless it cannot read one of the texts.
"""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from penstock import Batch, BatchContext, Item, Penstock

app = Penstock()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
calls: list[int] = []


class Api(NamedTuple):
    """Where the embedding service is."""

    url: str

    def embed(self, texts: list[str]) -> list[list[float]]:
        """One call for all; raises for a list that the service refuses."""
        with opener.open(self.url, json.dumps(texts).encode(), timeout=10) as response:
            return list(json.load(response))


# Urllib's HTTPError is an OSError, and here it says that a text is bad: only those that mean an
# outage fail all items. The others are halved until the guilty one is found.
OUTAGES = (ConnectionError, TimeoutError)


@app.task(batch=Batch(size=16, linger=0.2, fails_all=OUTAGES), resources=(Api,), max_attempts=1)
async def embed(ctx: BatchContext, items: list[Item[str]]) -> list[list[float]]:
    texts = [item.value for item in items]
    return await asyncio.to_thread(ctx.resource(Api).embed, texts)


@app.resource
@asynccontextmanager
async def api() -> AsyncIterator[Api]:
    """An embedding service on this machine, which counts its calls."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        texts = json.loads(await reader.readexactly(length))
        calls.append(len(texts))
        if any("\x07" in text for text in texts):
            writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        else:
            vectors = [[float(len(text))] for text in texts]
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(vectors).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield Api(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")


async def main() -> None:
    async with app:
        pages = [f"page {number}" for number in range(64)]
        pages[21] = "a page with a \x07 in it"
        jobs = await app.enqueue_many(
            embed.options(tenant=f"tenant-{number % 3}").prepare(page)
            for number, page in enumerate(pages)
        )
        tally = await app.worker({"default": 1}).drain()
        failed = await app.get(jobs[21])
        print(f"{tally.completed} pages embedded, {tally.failed} failed")
        print(f"the first: {(await app.get(jobs[0])).result}")
        print(f"the bad one: {failed.errors[0].message}")
        print(f"{len(calls)} calls for {len(jobs)} pages, the largest of {max(calls)}")


if __name__ == "__main__":
    asyncio.run(main())
