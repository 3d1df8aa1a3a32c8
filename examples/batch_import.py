"""A catalogue is imported as one batch: what failed is mended and run again, then it is published.

Run it with `python examples/batch_import.py`.
"""

import asyncio

from penstock import Context, NotRetryable, Penstock

app = Penstock()
broken = {"teapot"}
published = asyncio.Event()


@app.task
async def split(ctx: Context, catalogue: dict[str, int]) -> None:
    """One job becomes many, all of them in the same batch."""
    batch = await app.batch_handle(ctx.job)
    await batch.enqueue_many(load.prepare(name, price) for name, price in catalogue.items())


@app.task(max_attempts=1)
async def load(name: str, price: int) -> None:
    if name in broken:
        raise NotRetryable(f"nobody knows a {name}")


@app.task
async def warn(ctx: Context) -> None:
    status = await app.get_batch(ctx.job)
    print(f"something failed in {status.name}")


@app.task
async def publish(ctx: Context, shop: str) -> None:
    status = await app.get_batch(ctx.job)
    print(f"{shop} shows {status.completed - 1} products")
    published.set()


async def main() -> None:
    catalogue = {"cup": 4, "kettle": 30, "teapot": 25}
    async with app, app.worker():
        async with app.batch(
            "import", on_success=publish.prepare("acme"), on_failure=warn
        ) as batch:
            await batch.enqueue(split, catalogue)
        status = await batch.wait(timeout=30)
        await app.wait(status.failure_job or "", timeout=30)
        print(f"{status.done} of {status.total} jobs have ended, {status.failed} failed")
        broken.clear()
        redriven = await batch.retry()
        print(f"{redriven.number} comes back")
        await asyncio.wait_for(published.wait(), 30)


if __name__ == "__main__":
    asyncio.run(main())
