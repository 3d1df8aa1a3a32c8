"""A worker process that reserves a budget and is killed before it settles: `URL`."""

import asyncio
import sys

from penstock import Context, Liveness, Penstock


async def main(url: str) -> None:
    app = Penstock(url)

    @app.task(name="spend")
    async def spend(ctx: Context) -> None:
        async with ctx.budget("openai", units=60) as budget:
            budget.settle(1)
            print("reserved", flush=True)
            await asyncio.sleep(60)

    async with app, app.worker(liveness=Liveness(heartbeat=0.2, lease=60.0)):
        await asyncio.sleep(60)


asyncio.run(main(sys.argv[1]))
