"""Unique jobs while workers run them."""

import asyncio
from contextlib import suppress

import asyncpg
import pytest

from penstock import Context, Penstock, Suspended, Unique
from penstock.errors import StaleAttempt
from penstock.events import SettleRefused
from tests.fixtures.database import Database
from tests.fixtures.worker import gathered, reaches, worker_of

pytestmark = pytest.mark.any_pooler


@pytest.mark.told
async def test_a_running_job_is_superseded_its_late_writes_are_refused_and_the_newer_runs(
    app: Penstock, database: Database
) -> None:
    refused = gathered(app, SettleRefused)
    began, told = asyncio.Event(), asyncio.Event()
    late: list[str] = []

    @app.task(unique=Unique(key="index", on_conflict="supersede"))
    async def index(ctx: Context, text: str) -> str:
        if text == "new":
            return text
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with suppress(Suspended):
                await ctx.step("late", asyncio.sleep, 0)
                late.append("step")
            with suppress(StaleAttempt):
                async with database.connect() as connection, connection.transaction():
                    await ctx.fence(connection)
                    late.append("write")
            told.set()
            raise
        return text

    async with worker_of(app):
        older = await app.enqueue(index, "old")
        await began.wait()
        newer = await app.enqueue(index, "new")
        await asyncio.wait_for(told.wait(), 30)
        assert await app.wait(newer, timeout=30) == "new"
    found = await app.get(older)
    assert (found.state, found.reason) == ("cancelled", "superseded")
    assert late == []
    assert refused == []


async def test_of_twenty_calls_one_runs_with_the_last_arguments(app: Penstock) -> None:
    seen: list[int] = []

    @app.task(unique=Unique(key="save", on_conflict="replace"))
    async def save(version: int) -> None:
        seen.append(version)

    delayed = save.options(delay=3600)
    jobs = {(await app.enqueue(delayed, version)).id for version in range(19)}
    jobs.add((await app.enqueue(save.options(delay=0.05), 19)).id)
    [job] = jobs
    async with worker_of(app):
        await reaches(app, job, "completed")
    assert seen == [19]


async def test_what_is_enqueued_while_it_runs_runs_once_more(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    runs: list[str] = []

    @app.task(unique=Unique(key="refresh", hold="waiting"))
    async def refresh(ctx: Context) -> None:
        runs.append(ctx.job.id)
        began.set()
        await go_on.wait()

    async with worker_of(app, {"default": 1}):
        first = await app.enqueue(refresh)
        await began.wait()
        second = await app.enqueue(refresh)
        assert second.id != first.id
        assert (await app.enqueue(refresh)).id == second.id
        go_on.set()
        await reaches(app, second, "completed")
    assert runs == [first.id, second.id]
    assert await connection.fetchval("SELECT count(*) FROM penstock.unique_claim") == 0
