"""How far is it? A handler tells, anybody asks.

Run it with `python examples/progress.py`.
"""

import asyncio

from penstock import Context, Penstock

app = Penstock()
PAGES = 8


@app.task
async def index(ctx: Context, document: int) -> None:
    for page in range(PAGES):
        ctx.progress(page, PAGES, f"reading page {page + 1}")
        await asyncio.sleep(0.5)
    ctx.progress(PAGES, PAGES, "indexed")


async def main() -> None:
    async with app, app.worker():
        jobs = await app.enqueue_many(index.prepare(document) for document in range(3))
        seen = set()
        while True:
            # One call for any number of jobs, up to 1,000.
            states = await app.states(jobs)
            for status in states.values():
                far = "" if status.is_final else f", {status.done or 0:g} of {PAGES} pages"
                line = f"job {status.id} {status.state}{far}"
                if line not in seen:
                    seen.add(line)
                    print(line)
            if all(status.is_final for status in states.values()):
                return
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main())
