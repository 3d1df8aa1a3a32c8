"""A customer with many files does not hold up the one with a single file.

Run it with `python examples/fair_tenants.py`.
"""

import asyncio

from penstock import Penstock

app = Penstock()
served: list[str] = []


@app.task
async def import_file(tenant: str) -> None:
    served.append(tenant)


async def fill(queue: str) -> None:
    """A backlog of the large customer's, then two small ones come along."""
    files = {"large": 300, "medium": 20, "small": 1}
    for tenant, count in files.items():
        task = import_file.options(queue=queue, tenant=tenant)
        await app.enqueue_many([task.prepare(tenant) for _ in range(count)])
    served.clear()
    await app.worker({queue: 1}).drain()


async def main() -> None:
    async with app:
        await fill("plain")
        print(f"first come, first served: small is number {served.index('small') + 1}")

        await app.set_queue("imports", fair=True)
        await fill("imports")
        print(f"turns between tenants: small is number {served.index('small') + 1}")
        print(f"the first nine: {' '.join(served[:9])}")

        await app.set_lane("imports", "medium", weight=3)
        await fill("imports")
        medium, large = (served[:24].count(tenant) for tenant in ("medium", "large"))
        print(f"medium with weight 3 comes more often than large: {medium > large}")


if __name__ == "__main__":
    asyncio.run(main())
