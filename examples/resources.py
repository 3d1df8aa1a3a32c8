"""Things that are opened once per worker and shared by its jobs.

Run it with `python examples/resources.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock import Context, Penstock

app = Penstock()


class Model:
    """Stands for what is slow to load: a model, a pool, an HTTP client."""

    loaded = 0

    def __init__(self) -> None:
        Model.loaded += 1

    def embed(self, text: str) -> list[float]:
        return [float(len(word)) for word in text.split()]


@app.resource
@asynccontextmanager
async def model() -> AsyncIterator[Model]:
    print("the model is loaded")
    yield Model()
    print("the model is unloaded")


@app.task(resources=[Model])
async def embed(ctx: Context, text: str) -> list[float]:
    return ctx.resource(Model).embed(text)


async def main() -> None:
    async with app:
        async with app.worker():
            jobs = [await app.enqueue(embed, text) for text in ("to be", "or not to be")]
            for job in jobs:
                print(await app.wait(job, timeout=30))
        print(f"{Model.loaded} model for {len(jobs)} jobs")


if __name__ == "__main__":
    asyncio.run(main())
