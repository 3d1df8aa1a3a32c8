"""Accounts in Postgres, and jobs that move money between them: the code under test.

Run its tests with `pytest` in this folder; they need pytest and pytest-asyncio.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import asyncpg

from penstock import Context, NotRetryable, Penstock

app = Penstock()

TABLES = "CREATE TABLE account (name text PRIMARY KEY, balance int NOT NULL CHECK (balance >= 0))"


class Mailer(Protocol):
    async def send(self, to: str, text: str, *, key: str) -> None:
        """Send a mail; one with the same key is not sent again."""


@app.resource(asyncpg.Pool)
@asynccontextmanager
async def pool() -> AsyncIterator[asyncpg.Pool]:
    async with asyncpg.create_pool(app.url, min_size=0) as opened:
        yield opened


@app.task(resources=[asyncpg.Pool])
async def transfer(ctx: Context, giver: str, taker: str, amount: int) -> None:
    """Exactly once: the job is completed by the transaction that moves the money."""
    async with ctx.resource(asyncpg.Pool).acquire() as connection, connection.transaction():
        change = "UPDATE account SET balance = balance + $2 WHERE name = $1"
        try:
            await connection.execute(change, giver, -amount)
        except asyncpg.CheckViolationError as error:
            raise NotRetryable(f"{giver} does not have {amount}.") from error
        await connection.execute(change, taker, amount)
        await app.inside(connection).enqueue(thank.options(delay=3600), giver, amount)
        await ctx.complete(connection)


@app.task(resources=[Mailer])
async def thank(ctx: Context, name: str, amount: int) -> None:
    """At least once: the mailer knows a repeat by its key."""
    text = f"Thank you for the {amount}, {name}."
    await ctx.resource(Mailer).send(name, text, key=ctx.job.id)
