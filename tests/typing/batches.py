"""What type checkers must know of batches.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from typing import assert_type

from penstock import BatchHandle, BatchPage, BatchStatus, Context, Enqueued, Penstock
from penstock.groups.failed import Redriven

app = Penstock()


@app.task
async def size(url: str) -> int:
    return len(url)


@app.task
async def split(ctx: Context) -> None:
    batch = await app.batch_handle(ctx.job)
    assert_type(await batch.enqueue(size, "a"), Enqueued[int])
    assert_type(await app.get_batch(ctx.job), BatchStatus)


async def batches() -> None:
    async with app.batch("import", on_success=size.prepare("a"), on_end=split) as batch:
        assert_type(batch, BatchHandle)
        assert_type(await batch.enqueue_many([size.prepare("a")]), list[Enqueued[int]])
        await batch.enqueue(size, 5)  # type: ignore[arg-type]
        await batch.enqueue_many([size])  # type: ignore[arg-type]
    assert_type(await app.wait_batch(batch, timeout=5), BatchStatus)
    assert_type((await batch.status()).eta, float | None)
    assert_type(await app.batches(state="running"), BatchPage)
    assert_type(await app.cancel_batch(batch), int)
    assert_type(await batch.retry(rate="10/s"), Redriven)
    app.batch(on_end="split")  # type: ignore[arg-type]
    await app.list(batch=batch, state="failed")
