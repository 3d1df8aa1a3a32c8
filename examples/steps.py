"""An order that takes days, written as if it took a moment: steps, a sleep, an event.

    python examples/steps.py

The handler begins again whenever it goes on; what is done is not done again.
"""

import asyncio
from datetime import timedelta

from penstock import Cache, Context, EventTimeout, Penstock

app = Penstock()


async def reserve(order: int) -> str:
    print(f"order {order}: reserved")
    return f"shelf-{order}"


def describe(product: str) -> str:
    print(f"described {product}")  # think of a model that is paid for by the word
    return f"a very good {product}"


async def ship(order: int, shelf: str) -> None:
    print(f"order {order}: shipped from {shelf}")


@app.task
async def fulfil(ctx: Context, order: int, product: str) -> str:
    shelf = await ctx.step("reserve", reserve, order)
    text = await ctx.step("describe", describe, product, cache=Cache(ttl=timedelta(days=30)))
    await ctx.sleep(0.1)  # the customer may think again
    try:
        answer = await ctx.wait_for_event(f"paid:{order}", timeout=timedelta(days=7))
    except EventTimeout:
        return "never paid"
    await ctx.step("ship", ship, order, shelf)
    return f"{text}, paid by {answer['by']}, in {ctx.attempt} attempts"


async def blocked(job: str) -> None:
    while True:
        if (await app.get(job)).state == "blocked":
            return
        await asyncio.sleep(0.05)


async def main() -> None:
    async with app, app.worker():
        first = await app.enqueue(fulfil, 1, "kettle")
        await blocked(first.id)
        print(f"order 1: {(await app.get(first)).reason}")
        await app.send_event("paid:1", {"by": "card"})
        print(await app.wait(first, timeout=30))

        await app.send_event("paid:2", {"by": "cash"})  # before the job is even there
        second = await app.enqueue(fulfil, 2, "kettle")
        print(await app.wait(second, timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
