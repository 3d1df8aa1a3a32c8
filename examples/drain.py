"""For hosts without long-running processes: enqueue at any time, and let cron work it off.

Enqueue with `python examples/drain.py`; then, from cron, every minute:
`cd examples && penstock work drain --drain --for 25s`.
"""

import asyncio
import sys

from penstock import Penstock

app = Penstock()


@app.task
async def send_reminder(customer: int) -> None:
    print(f"dear customer {customer}", file=sys.stderr)


async def main() -> None:
    async with app:
        jobs = await app.enqueue_many(send_reminder.prepare(customer) for customer in range(1, 4))
        print(f"{len(jobs)} jobs wait for the next drain")


if __name__ == "__main__":
    asyncio.run(main())
