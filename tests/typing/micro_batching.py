"""What type checkers must know of tasks that take many jobs in one call.

Checked by mypy and pyright, never run: an ignore that is not needed any more is an error in both.
"""

from collections.abc import Sequence
from typing import Any, assert_type

from penstock import Batch, BatchContext, Context, Enqueued, Item, Penstock, Retry, Task, task

app = Penstock()


@app.task(batch=Batch(size=64, linger=0.05), queue="embed")
async def embed(items: list[Item[str]]) -> list[list[float]]:
    assert_type(items[0].value, str)
    assert_type(items[0].ctx, Context)
    return [[float(len(item.value))] for item in items]


@app.task(batch=Batch(size=8, key="tenant"))
async def charge(ctx: BatchContext, items: list[Item[int]]) -> list[str | Retry | Exception]:
    async with ctx.budget("bank", units=len(items)):
        return [ValueError(item.value) if item.value < 0 else "paid" for item in items]


@task(batch=Batch(2, key=lambda value: value % 3, fails_all=[OSError]))
def blocking(items: Sequence[Item[int]]) -> tuple[str, ...]:
    return tuple(str(item.value) for item in items)


@app.task(batch=Batch(2))
def blocking_with(ctx: BatchContext, items: list[Item[int]]) -> list[None]:
    assert_type(ctx.resource(Penstock), Penstock)
    with ctx.sync.budget("bank", units=1):
        return [item.ctx.progress(1) for item in items]


async def use() -> None:
    assert_type(await app.enqueue(embed, "text"), Enqueued[list[float]])
    assert_type(await app.enqueue(embed.options(delay=5), "text"), Enqueued[list[float]])
    assert_type(await app.wait(await app.enqueue(charge, 5)), str)
    assert_type(await app.enqueue(blocking, 5), Enqueued[str])
    await app.enqueue_many(embed.prepare(text) for text in ("a", "b"))
    known: Task[[str], list[float]] = embed
    await app.enqueue(known, "text")
    await app.enqueue(embed, 5)  # type: ignore[arg-type]
    await app.enqueue(embed, "a", "b")  # type: ignore[call-arg]
    await embed([Item.of("a")])
    blocking([Item.of(1)])
    await embed([Item.of(1)])  # type: ignore[arg-type]
    await embed("a")  # type: ignore[arg-type]


def refused(batch: Any) -> None:
    app.task(batch=5)  # type: ignore[call-overload]
    app.task(batch=Batch())  # type: ignore[call-arg]
