"""What the workers of these tests do. Each handler says in the effects log what it did."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import asyncpg
from pydantic import AfterValidator, BaseModel

from penstock import (
    Batch,
    BatchContext,
    Context,
    Fixed,
    Item,
    NotRetryable,
    Penstock,
    Retry,
)
from penstock.store import Pool
from tests.chaos.lines import Lines
from tests.chaos.recorded import RecordedStore

GATE_LOOK = 0.01


def die(_: object = None) -> NoReturn:
    """Take the whole process along."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


class Deadly(BaseModel):
    """An argument that kills who looks at it."""

    value: Annotated[int, AfterValidator(die)]


class Effects:
    """The effects log of one process. Every line tells which attempt it comes from."""

    def __init__(self, lines: Lines, store: RecordedStore) -> None:
        self._lines = lines
        self._store = store

    def write(self, ctx: Context, what: str) -> None:
        job = int(ctx.job.id)
        token = self._store.tokens[job, ctx.attempt]
        self._lines.write("effect", what=what, job=job, attempt=ctx.attempt, token=token)

    @contextmanager
    def run(self, ctx: Context) -> Iterator[None]:
        """Tell of the start, and of the end if it comes to that."""
        self.write(ctx, "start")
        try:
            yield
        except asyncio.CancelledError:
            self.write(ctx, "stopped")
            raise
        self.write(ctx, "done")


def register(
    app: Penstock, effects: Effects, gates: Path, blocks_now: Callable[[], object]
) -> None:
    """Give an app the tasks of these tests; `blocks_now` hears that one blocks the event loop."""

    async def wait_for(gate: str) -> None:
        while not (gates / gate).exists():  # noqa: ASYNC110 - the test opens it, by a file
            await asyncio.sleep(GATE_LOOK)

    @app.resource
    @asynccontextmanager
    async def pool() -> AsyncIterator[asyncpg.Pool]:
        settings = {"application_name": "chaos transfer", "synchronous_commit": "on"}
        async with asyncpg.create_pool(
            app.url, min_size=0, max_size=5, server_settings=settings
        ) as pool:
            yield pool

    @app.task(name="note")
    async def note(ctx: Context) -> None:
        """Done before it ever waits."""
        with effects.run(ctx):
            pass

    @app.task(name="slow")
    async def slow(ctx: Context, seconds: float) -> None:
        with effects.run(ctx):
            await asyncio.sleep(seconds)

    @app.task(name="gated")
    async def gated(ctx: Context, gate: str) -> None:
        """Goes on once the test opens the gate."""
        with effects.run(ctx):
            await wait_for(gate)

    @app.task(name="blocks")
    async def blocks(ctx: Context, gate: str) -> None:
        """Keeps the event loop for itself, the first time, until the gate is open."""
        with effects.run(ctx):
            if ctx.attempt == 1:
                blocks_now()
                while not (gates / gate).exists():
                    time.sleep(GATE_LOOK)  # noqa: ASYNC251 - to block is the point

    @app.task(name="dies")
    async def dies(ctx: Context, times: int) -> None:
        """Takes its worker with it, the first few times."""
        with effects.run(ctx):
            if ctx.attempt <= times:
                os.kill(os.getpid(), signal.SIGKILL)

    @app.task(name="dies-in-a-thread")
    def dies_in_a_thread() -> None:
        die()

    @app.task(name="dies-decoding")
    async def dies_decoding(deadly: Deadly) -> None: ...

    @app.task(name="dies-grouping", batch=Batch(size=3, linger=0.05, key=die))
    async def dies_grouping(items: list[Item[int]]) -> list[None]:
        die()

    @app.task(name="counts", batch=Batch(size=3, linger=0.05))
    async def counts(items: list[Item[int]]) -> list[None]:
        return [None for _ in items]

    @app.task(name="breaks")
    async def breaks(ctx: Context) -> None:
        """Never succeeds."""
        with effects.run(ctx):
            raise NotRetryable("broken for good")

    @app.task(name="flaky")
    async def flaky(ctx: Context) -> Retry | None:
        """Fails once before it succeeds."""
        with effects.run(ctx):
            await asyncio.sleep(0)
        return Retry(after=0.05, error="not yet") if ctx.job.failures == 0 else None

    @app.task(name="fenced", resources=(asyncpg.Pool,))
    async def fenced(ctx: Context, gate: str) -> None:
        """Holds the fence in a transaction of its own until the gate opens."""
        pool: Pool = ctx.resource(asyncpg.Pool)
        async with pool.acquire() as connection, connection.transaction():
            await ctx.fence(connection)
            with effects.run(ctx):
                await wait_for(gate)

    @app.task(name="transfer", resources=(asyncpg.Pool,), retry=Fixed(0.1))
    async def transfer(ctx: Context) -> None:
        """Its effect is a row in the same Postgres, written exactly once."""
        pool: Pool = ctx.resource(asyncpg.Pool)
        with effects.run(ctx):
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute(
                    "INSERT INTO chaos.effect (job, attempt) VALUES ($1, $2)",
                    int(ctx.job.id),
                    ctx.attempt,
                )
                await ctx.complete(connection)

    @app.task(
        name="shared",
        batch=Batch(size=16, linger=0.2),
        resources=(asyncpg.Pool,),
        retry=Fixed(0.1),
    )
    async def shared(ctx: BatchContext, items: list[Item[str]]) -> list[None]:
        """Many jobs in one call, whose effects are rows in the same Postgres."""
        pool: Pool = ctx.resource(asyncpg.Pool)
        for item in items:
            effects.write(item.ctx, "start")
        await wait_for(items[0].value)
        async with pool.acquire() as connection, connection.transaction():
            for item in items:
                await connection.execute(
                    "INSERT INTO chaos.effect (job, attempt) VALUES ($1, $2)",
                    int(item.ctx.job.id),
                    item.ctx.attempt,
                )
                await item.ctx.complete(connection)
        for item in items:
            effects.write(item.ctx, "done")
        return [None for _ in items]

    @app.task(name="steps")
    async def steps(ctx: Context, count: int, seconds: float) -> None:
        """Does its work in durable steps, each of which tells when it has done its part."""

        async def part(number: int) -> int:
            await asyncio.sleep(seconds)
            effects.write(ctx, f"step {number}")
            return number

        with effects.run(ctx):
            for number in range(count):
                assert await ctx.step(f"part {number}", part, number) == number

    @app.task(name="waits")
    async def waits(ctx: Context, name: str) -> None:
        """Waits for an event, twice, and sleeps a little in between."""
        for number in (1, 2):
            got = await ctx.wait_for_event(name)
            assert got == number, f"{got} is not event {number}"
            await ctx.sleep(0.05)
        effects.write(ctx, "got")

    @app.task(name="timed", resources=(asyncpg.Pool,))
    async def timed(ctx: Context, seconds: float) -> None:
        """Writes down by the database's clock from when to when it ran."""
        pool: Pool = ctx.resource(asyncpg.Pool)
        with effects.run(ctx):
            span = await pool.fetchval(
                "INSERT INTO chaos.span (job, lane, worker) VALUES ($1, $2, $3) RETURNING id",
                int(ctx.job.id),
                ctx.job.lane,
                ctx.job.worker,
            )
            try:
                await asyncio.sleep(seconds)
            finally:
                await pool.execute(
                    "UPDATE chaos.span SET ended = clock_timestamp() WHERE id = $1", span
                )
