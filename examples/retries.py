"""What becomes of a job whose handler fails.

Run it with `python examples/retries.py`.
"""

import asyncio

from penstock import Context, Discard, Listed, NotRetryable, Penstock, Retryable, Snooze
from penstock.errors import JobFailed

app = Penstock()


@app.task(max_attempts=4, retry=Listed([0.1, 0.2, 0.4]))
async def unsteady(ctx: Context) -> str:
    """Any exception is tried again, as the task's policy says."""
    if ctx.attempt < 3:
        raise ConnectionError("try again")
    return f"succeeded at attempt {ctx.attempt}"


@app.task
async def limited(ctx: Context) -> str:
    """The other side says how long to wait."""
    if ctx.attempt == 1:
        raise Retryable("429 Too Many Requests", after=0.2)
    return "accepted"


@app.task
async def poll(ctx: Context) -> Snooze | str:
    """Too early is no failure: a snooze counts as nothing."""
    return Snooze(0.2) if ctx.attempt < 3 else "ready at last"


@app.task(discard_on=(UnicodeError,))
async def hopeless(way: str) -> Discard:
    """Three ways to say that trying again is pointless."""
    match way:
        case "raise":
            raise NotRetryable("the account is closed")
        case "discard_on":
            raise UnicodeError("no text")
        case _:
            return Discard("it is a duplicate")


async def main() -> None:
    async with app, app.worker():
        jobs = [await app.enqueue(task) for task in (unsteady, limited, poll)]
        for job in jobs:
            print(await app.wait(job, timeout=30))
        for way in ("raise", "discard_on", "return"):
            try:
                await app.wait(await app.enqueue(hopeless, way), timeout=30)
            except JobFailed as failed:
                print(f"{failed.reason}: {failed.error_message}")


if __name__ == "__main__":
    asyncio.run(main())
