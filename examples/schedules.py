"""A schedule from code, edited while it runs, skipped while its last job is busy, and run by hand.

Run it with `python examples/schedules.py`.
"""

import asyncio

from penstock import Context, Fire, Penstock

app = Penstock()
busy = asyncio.Event()


@app.task
async def refresh(ctx: Context, what: str) -> str:
    if what == "prices":
        await busy.wait()
    return f"{what} for {(ctx.job.meta or {})['schedule']}"


app.schedule("prices", refresh.prepare("prices"), every=0.2)
app.schedule("nightly", refresh.prepare("stock"), cron="0 3 * * *", timezone="Europe/Berlin")


async def fires_of(name: str, why: str | None) -> list[Fire]:
    """Wait for ticks that came to this."""
    while True:
        if found := [fire for fire in await app.schedule_fires(name) if fire.why == why]:
            return found
        await asyncio.sleep(0.05)


async def main() -> None:
    async with app, app.worker():
        await fires_of("prices", "running")
        print("ticks are skipped while the last job runs")
        busy.set()

        # Somebody types `penstock schedules set nightly --cron '0 5 * * *'`.
        edited = await app.set_schedule("nightly", cron="0 5 * * *")
        print(f"nightly now fires by {edited.cron} in {edited.timezone}")
        again = await app.reset_schedule("nightly")
        print(f"and by {again.cron} again, as the code says")

        job = await app.run_schedule("nightly")
        print(await app.wait(job, timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
