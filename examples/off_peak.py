"""Heavy work runs at night, and those who pay more are served first.

Run it with `python examples/off_peak.py`.
"""

import asyncio
from datetime import UTC, datetime, timedelta

from penstock import Penstock, Windows

app = Penstock()


@app.task
async def answer(question: str) -> str:
    return f"answered: {question}"


@app.task(queue="reports")
async def report(customer: str) -> None:
    print(f"report for {customer}")


def in_two_hours() -> Windows:
    """Stands for the night, whenever this program is run."""
    start = datetime.now(UTC) + timedelta(hours=2)
    return Windows(f"{start:%H:%M}-{start + timedelta(hours=6):%H:%M}", timezone="UTC")


async def main() -> None:
    async with app:
        await app.set_queue("reports", windows=in_two_hours(), late_after=timedelta(hours=12))
        await app.set_plan("gold", priority=10)
        await app.set_tenant("acme", plan="gold")
        reports = [
            await app.enqueue(report.options(tenant=customer), customer)
            for customer in ("mini", "acme")
        ]
        async with app.worker({"default": 10, "reports": 1}):
            print(await app.wait(await app.enqueue(answer, "what time is it?"), timeout=30))
            states = {(await app.get(job)).state for job in reports}
            print(f"by day the reports are {', '.join(states)}")
            # Night falls: somebody types `penstock queues set reports --no-window`.
            await app.set_queue("reports", windows=None)
            for job in reports:
                await app.wait(job, timeout=30)


if __name__ == "__main__":
    asyncio.run(main())
