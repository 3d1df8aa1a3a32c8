"""Work in the same Postgres happens exactly once, whatever becomes of the worker.

`ctx.complete` settles the job inside the handler's own transaction: the money moves and the job is
completed, or neither. An attempt that no longer owns its job gets a StaleAttempt and rolls back.

Run it with `python examples/exactly_once.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from penstock import Context, Fixed, Penstock

app = Penstock()


@app.resource(asyncpg.Pool)
@asynccontextmanager
async def pool() -> AsyncIterator[asyncpg.Pool]:
    async with asyncpg.create_pool(app.url, min_size=1) as opened:
        yield opened


@app.task(resources=[asyncpg.Pool], retry=Fixed(0))
async def deposit(ctx: Context, amount: int) -> None:
    async with ctx.resource(asyncpg.Pool).acquire() as connection, connection.transaction():
        await connection.execute("UPDATE account SET balance = balance + $1", amount)
        if ctx.attempt == 1:
            raise ConnectionError("the first attempt fails after its write")
        await ctx.complete(connection)


async def main() -> None:
    async with app:
        connection = await asyncpg.connect(app.url)
        await connection.execute("CREATE TABLE IF NOT EXISTS account (balance int)")
        await connection.execute("TRUNCATE account")
        await connection.execute("INSERT INTO account VALUES (0)")

        job = await app.enqueue(deposit, 100)
        await app.worker().drain()

        done = await app.get(job)
        balance = await connection.fetchval("SELECT balance FROM account")
        print(f"{done.state} after {done.attempt} attempts, balance {balance}")
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
