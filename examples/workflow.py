"""A book is translated: chapters in parallel, as many as there are, and put together at the end.

Run it with `python examples/workflow.py`.
"""

import asyncio

from penstock import Context, NotRetryable, Penstock, Workflow

app = Penstock()
illegible = {"two"}


@app.task
async def split(ctx: Context, book: str) -> list[str]:
    """Only here it turns out how many chapters there are: each becomes a job before the binding."""
    chapters = book.split()
    more = Workflow(on_failure="wait")
    for chapter in chapters:
        more.add(translate.prepare(chapter), name=chapter, after=ctx.job, before="bind")
    await ctx.extend(more)
    return chapters


@app.task(max_attempts=1)
async def translate(chapter: str) -> str:
    if chapter in illegible:
        raise NotRetryable(f"chapter {chapter} cannot be read")
    return {"one": "eins", "two": "zwei", "three": "drei"}[chapter]


@app.task
async def bind(ctx: Context) -> str:
    parents = await ctx.parents()
    return " ".join(parents[chapter].result for chapter in parents["split"].result)


async def main() -> None:
    flow = Workflow("translate a book")
    begin = flow.add(split.prepare("one two three"), name="split")
    flow.add(bind.prepare(), name="bind", after=begin)
    async with app:
        started = await app.start_workflow(flow)
        await app.worker().drain()
        status = await app.get_workflow(started)
        print(f"{status.state}: {status['two'].error}")
        illegible.clear()
        print(f"{await app.retry_workflow(started)} job comes back")
        await app.worker().drain()
        status = await app.get_workflow(started)
        print(f"{status.state}: {await app.wait(started['bind'])}")


if __name__ == "__main__":
    asyncio.run(main())
