"""Small work beside a request: done at once if there is room, dropped if there is not.

Run it with `python examples/local_pool.py`.
"""

import asyncio
import time
from collections import Counter
from contextvars import ContextVar

from penstock import Penstock

app = Penstock()
pool = app.local_pool("tracking", workers=4, slots=100)

user: ContextVar[str] = ContextVar("user")
seen: Counter[str] = Counter()


async def track(product: str) -> None:
    """Knows who asked, by the context variable."""
    await asyncio.sleep(0.001)
    seen[f"{user.get()} looked at a {product}"] += 1


def write_line(product: str) -> None:
    """Blocks, so it has a thread."""
    time.sleep(0.001)
    seen["lines"] += 1


@app.task
async def restock(product: str) -> None:
    user.set("the warehouse")
    pool.submit(track, product)


async def show(name: str, product: str) -> str:
    """Stands for a web handler: it answers at once."""
    user.set(name)
    pool.submit(track, product)
    pool.submit(write_line, product)
    return f"here is your {product}"


async def main() -> None:
    async with app:
        async with app.worker():
            print(await asyncio.create_task(show("Ada", "kettle")))
            print(await asyncio.create_task(show("Bob", "lamp")))
            await app.wait(await app.enqueue(restock, "kettle"), timeout=30)
        # The worker has stopped, and what it was asked to do beside its jobs is done.
        for line in sorted(seen):
            print(f"{seen[line]} × {line}")

        user.set("a crowd")
        taken = sum(pool.submit(track, "lamp") for _ in range(1000))
        print(f"of 1000 at once {taken} were taken")
        await pool.idle()
        counts = pool.counts
        print(f"{counts.submitted} submitted, {counts.done} done, {counts.dropped} dropped")


if __name__ == "__main__":
    asyncio.run(main())
