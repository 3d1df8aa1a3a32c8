"""A job that exists exactly if your transaction commits.

Run it with `python examples/transaction.py`.
"""

import asyncio

import asyncpg

from penstock import Penstock

app = Penstock()


@app.task
async def send_invoice(number: int) -> str:
    return f"invoice {number} sent"


async def order(connection: asyncpg.Connection, number: int, *, paid: bool) -> None:
    """Store an order, and the job that bills it, together or not at all."""
    async with connection.transaction():
        await connection.execute("INSERT INTO shop_order (number) VALUES ($1)", number)
        await app.inside(connection).enqueue(send_invoice, number)
        if not paid:
            raise LookupError(f"order {number} is not paid")


async def main() -> None:
    async with app:
        connection = await asyncpg.connect(app.url)
        await connection.execute("CREATE TABLE IF NOT EXISTS shop_order (number int)")
        await order(connection, 1, paid=True)
        try:
            await order(connection, 2, paid=False)
        except LookupError as error:
            print(f"rolled back: {error}")
        await connection.close()

        tally = await app.worker().drain()
        print(f"{tally.completed} job ran")
        for job in (await app.list(task=send_invoice, limit=1)).jobs:
            print(job.result)


if __name__ == "__main__":
    asyncio.run(main())
