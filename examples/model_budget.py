"""Many jobs share what a model API allows; a refusal stops them all, and costs none an attempt.

Run it with `python examples/model_budget.py`. The service stands in for a model API: it answers in
JSON with the tokens used, and once with 429 and a Retry-After.
"""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from urllib.parse import quote

from penstock import Context, Penstock

app = Penstock()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
refused = 0


# Closed by a 429, the key lets no job of this task start: those that wait need not even try.
@app.task(limits="model", max_attempts=1)
async def summarise(ctx: Context, url: str, text: str) -> int:
    async with ctx.budget("model", units=1000) as budget:  # the most that the call may cost
        answer = await asyncio.to_thread(ask, url, text)
        budget.settle(answer["tokens"])  # what it did cost: the rest goes back
    return int(answer["tokens"])


def ask(url: str, text: str) -> dict[str, int]:
    """One call; raises urllib's HTTPError for a 429, headers and all."""
    with opener.open(f"{url}?{quote(text)}", timeout=10) as response:
        return dict(json.load(response))


@asynccontextmanager
async def service() -> AsyncIterator[str]:
    """A model API on this machine, which refuses the third request."""
    numbers = count(1)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        global refused
        number = next(numbers)
        await reader.readuntil(b"\r\n\r\n")
        if number == 3:
            refused += 1
            writer.write(b"HTTP/1.0 429 Too Many Requests\r\nRetry-After: 1\r\n\r\n")
        else:
            writer.write(b'HTTP/1.0 200 OK\r\n\r\n{"tokens": 120}')
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def main() -> None:
    async with app, service() as url:
        # 4,000 tokens at once, and 60,000 in a minute.
        await app.set_limit("model", rate="60000/min", burst=4000)
        async with app.worker({"default": 2}), app.worker({"default": 2}):
            jobs = [await app.enqueue(summarise, url, f"chapter {n}") for n in range(12)]
            tokens = [await app.wait(job, timeout=30) for job in jobs]
        failures = sum([(await app.get(job)).failures for job in jobs])
        print(f"{len(jobs)} chapters for {sum(tokens)} tokens")
        print(f"the service refused {refused} call, and {failures} attempts failed")


if __name__ == "__main__":
    asyncio.run(main())
