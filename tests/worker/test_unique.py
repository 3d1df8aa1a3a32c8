"""Unique jobs while workers run them."""

import asyncio
from contextlib import suppress

import pytest

from penstock import Context, Penstock, Suspended, Unique
from penstock.errors import StaleAttempt
from penstock.telemetry import SettleRefused
from tests.fixtures.database import Database
from tests.fixtures.worker import gathered, worker_of

pytestmark = pytest.mark.any_pooler


@pytest.mark.told
async def test_superseded_job_cannot_write_and_the_newer_one_runs(
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
