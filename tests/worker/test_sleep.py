"""Sleeping jobs: no slot is held, and the handler goes on behind its sleep."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.errors import ConfigError
from tests.fixtures.worker import reaches, worker_of

pytestmark = pytest.mark.any_pooler

A_DAY_AGO = (
    "UPDATE penstock.step SET result = jsonb_build_object('until', now() - interval '1 day')"
)


async def test_sleeping_job_holds_no_slot_and_resumes_after_its_sleep(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    calls: list[str] = []

    @app.task
    async def remind(ctx: Context) -> int:
        await ctx.step("send", calls.append, "send")
        await ctx.sleep(timedelta(days=3))
        await ctx.step("remind", calls.append, "remind")
        await ctx.sleep(0)
        return ctx.attempt

    @app.task
    async def other() -> None:
        calls.append("other")

    async with worker_of(app, {"default": 1}):
        job = await app.enqueue(remind)
        asleep = await reaches(app, job, "scheduled")
        assert (asleep.reason, asleep.failures, asleep.losses) == ("sleep:1", 0, 0)
        left = asleep.run_at - datetime.now(UTC)
        assert timedelta(days=2.9) < left <= timedelta(days=3)
        await app.wait(await app.enqueue(other), 30)
        # Woken too early it goes on sleeping; when its time has come it does not.
        await app.retry(job)
        await reaches(app, job, "scheduled")
        assert calls == ["send", "other"]
        await connection.execute(A_DAY_AGO)
        await app.retry(job)
        assert await app.wait(job, 30) == 3
    assert calls == ["send", "other", "remind"]
    assert (await app.get(job)).failures == 0


async def test_a_sync_handler_sleeps_until_a_time(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task
    def work(ctx: Context, until: datetime) -> int:
        ctx.sync.sleep_until(until)
        ctx.sync.sleep(0.01)
        try:
            ctx.sync.sleep(0.01)
        except Exception:
            raise AssertionError("A sleep is no error.") from None
        return ctx.attempt

    async with worker_of(app):
        for until in (timedelta(seconds=0.05), timedelta(days=-1)):
            job = await app.enqueue(work, datetime.now(UTC) + until)
            assert await app.wait(job, 30) > 1
            kept = "SELECT count(*) FROM penstock.step WHERE kind = 'sleep' AND job = $1"
            assert await connection.fetchval(kept, int(job.id)) == 3


async def test_a_time_without_a_zone_is_refused(app: Penstock) -> None:
    @app.task
    async def work(ctx: Context) -> None:
        with pytest.raises(ConfigError, match="time zone"):
            await ctx.sleep_until(datetime.now())
        with pytest.raises(ConfigError):
            await ctx.sleep(-1)

    async with worker_of(app):
        await app.wait(await app.enqueue(work), 30)
