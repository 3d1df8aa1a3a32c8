"""Why a job waits where lanes take turns and limits hold."""

import asyncio
import re
from datetime import UTC, datetime

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.insights import Count, Insights, Window
from tests.fixtures.worker import GROUPS, worker_of
from tests.insights.rows import bucket, fair, grant, lease, limit, put, set_lane

SHUT = '{"timezone": "UTC", "open": []}'
DEDICATED = '{{"queues": {{"imports": 4}}, "tasks": ["render"], {0}}}'


async def waits(insights: Insights, job: int) -> dict[str, str]:
    return {wait.kind: wait.message for wait in (await insights.job(str(job))).waits}


async def test_its_lane_is_paused(insights: Insights, connection: asyncpg.Connection) -> None:
    await fair(connection)
    await lease(connection, "ada")
    await set_lane(connection, "a b", paused_at=datetime.now(UTC))
    held, other = await put(connection, "a b"), await put(connection, "bolt")
    assert await waits(insights, held) == {
        "lane_paused": "Its lane 'a b' of the queue is paused. "
        "`penstock lanes set imports 'a b' --resume` ends that."
    }
    assert list(await waits(insights, other)) == ["in_line"]


async def test_its_window_is_closed(insights: Insights, connection: asyncpg.Connection) -> None:
    await fair(connection)
    await lease(connection, "ada")
    job = await put(connection, "acme")
    for table in ("queue", "lane_setting"):
        await set_lane(connection, "acme")
        await connection.execute(f"UPDATE penstock.{table} SET windows = $1", SHUT)
        assert "are never open" in (await waits(insights, job))["window_closed"]
        await connection.execute(f"UPDATE penstock.{table} SET windows = NULL")
        await connection.execute("DELETE FROM penstock.lane_setting")
    hour = (datetime.now(UTC).hour + 12) % 24
    later = f'{{"timezone": "UTC", "open": [{{"from": "{hour:02}:00", "to": "{hour:02}:30"}}]}}'
    await connection.execute("UPDATE penstock.queue SET windows = $1", later)
    assert f" {hour:02}:00:0" in (await waits(insights, job))["window_closed"]


async def test_a_limit_of_its_is_full(insights: Insights, connection: asyncpg.Connection) -> None:
    await fair(connection)
    await limit(connection, "openai", slots=3)
    ada, bo = await lease(connection, "ada"), await lease(connection, "bo")
    await grant(connection, ada, "openai", 2)
    limited = await put(connection, "acme", limits=["openai"])
    free = await put(connection, "acme")
    assert list(await waits(insights, limited)) == ["in_line"]
    await grant(connection, bo, "openai", 1)
    assert await waits(insights, limited) == {
        "limit": "The limit openai lets 3 jobs run at once, and all slots are held: "
        "2 by ada, 1 by bo."
    }
    assert list(await waits(insights, free)) == ["in_line"]
    await connection.execute("UPDATE penstock.limit_setting SET slots = 0")
    assert "lets no job run" in (await waits(insights, limited))["limit"]


@pytest.mark.parametrize("key", ["queue:imports", "lane:imports:*", "task:render"])
async def test_limits_of_its_queue_lane_and_task_hold_too(
    insights: Insights, connection: asyncpg.Connection, key: str
) -> None:
    await fair(connection)
    await lease(connection, "ada")
    job = await put(connection, "acme")
    await limit(connection, key, slots=0)
    assert list(await waits(insights, job)) == ["limit"]


async def test_its_rate_is_used_up(insights: Insights, connection: asyncpg.Connection) -> None:
    await fair(connection)
    await lease(connection, "ada")
    await limit(connection, "api", rate=0.1, burst=5.0)
    job = await put(connection, "acme", limits=["api"])
    assert list(await waits(insights, job)) == ["in_line"], "a bucket begins full"
    await bucket(connection, "api", -9)
    message = (await waits(insights, job))["rate"]
    assert message.startswith(
        "The limit api lets a job every 10 s begin, and the next one in 1 min"
    )
    await connection.execute("UPDATE penstock.limit_setting SET rate = 0")
    assert "its rate is 0" in (await waits(insights, job))["rate"]
    await connection.execute("UPDATE penstock.bucket SET closed_until = now() + interval '2 min'")
    closed = await waits(insights, job)
    assert list(closed) == ["bucket_closed"]
    assert "`penstock limits open api`" in closed["bucket_closed"]


async def test_workers_serve_other_tenants(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection)
    await lease(connection, "big", info=DEDICATED.format('"tenants": ["bolt"]'))
    await lease(connection, "rest", info=DEDICATED.format('"except_tenants": ["acme", "bolt"]'))
    found = [await put(connection, tenant) for tenant in ("acme", "bolt", "cord")]
    assert "serve other tenants than 'acme'" in (await waits(insights, found[0]))["other_tenants"]
    assert [list(await waits(insights, job)) for job in found[1:]] == [["in_line"], ["in_line"]]
    big, rest = await insights.workers()
    assert (big.tenants, rest.except_tenants) == (("bolt",), ("acme", "bolt"))


async def test_its_place_in_its_lane_and_between_lanes(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fair(connection)
    await lease(connection, "ada")
    await put(connection, "acme", jobs=2)
    job = await put(connection, "acme")
    await put(connection, "acme")
    await put(connection, "acme", priority=5)
    await put(connection, "bolt")
    await put(connection, "bolt", limits=["openai"])
    seen = await insights.job(str(job))
    assert seen.turn is not None
    assert (seen.turn.ahead, seen.turn.others) == (Count(3), Count(1))
    [wait] = seen.waits
    assert wait.message == (
        "It is in line: a worker takes it when its turn comes. 3 jobs are before it, and 1 other "
        "lane takes turns with its own."
    )


async def test_its_budget_has_no_units(app: Penstock, insights: Insights) -> None:
    @app.task
    async def ask(ctx: Context) -> None:
        async with ctx.budget("openai", units=900):
            pass

    await app.set_limit("openai", rate=0.1, burst=1000)
    jobs = [await app.enqueue(ask), await app.enqueue(ask)]
    await worker_of(app, {"default": 1}).drain()
    found = [await app.get(job) for job in jobs]
    [put_off] = [job for job in found if job.state == "scheduled"]
    told = await waits(insights, int(put_off.id))
    assert list(told) == ["budget", "no_worker"]
    assert told["budget"].startswith("The budget openai had no units for it: it is tried again at")
    assert re.search(r" There are 10\d of 1,000 now\.$", told["budget"])
    await app.close_bucket("openai", 60)
    assert "It is closed until" in (await waits(insights, int(put_off.id)))["budget"]


async def test_with_living_workers_it_is_told_who_holds_the_limit(
    app: Penstock, insights: Insights
) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    @app.task(limits="door")
    async def walk() -> None:
        started.set()
        await go.wait()

    await app.set_queue("imports", fair=True)
    await app.set_limit("door", slots=1)
    task = walk.options(queue="imports", tenant="acme")
    async with app.worker({"imports": 4}, name="ada", tenants=["acme"], **GROUPS):
        await app.enqueue(task)
        await started.wait()
        second, other = await app.enqueue(task), await app.enqueue(task.options(tenant="bolt"))
        found = await waits(insights, int(second.id))
        assert found["limit"].endswith("lets 1 job run at once, and all slots are held: 1 by ada.")
        assert "other_tenants" in await waits(insights, int(other.id))
        [worker] = await insights.workers()
        assert (worker.tenants, [each.key for each in worker.grants]) == (("acme",), ["door"])
        [lane, _] = (await insights.lanes("imports")).lanes
        assert lane.limits == ("door",)
        go.set()


@pytest.mark.parametrize(
    ("lane", "queue", "both"),
    [
        ((True, None), (True, None), (True, None)),
        ((True, 5), (True, 3), (True, 3)),
        ((False, 5), (True, 3), (False, 5)),
        ((False, 5), (False, 9), (False, 9)),
        ((False, None), (False, 9), (False, None)),
        ((False, None), (True, 9), (False, None)),
    ],
)
def test_a_lane_is_open_while_its_queue_is_too(lane, queue, both) -> None:
    def window(is_open: bool, changes_in: float | None) -> Window:
        return Window(is_open=is_open, changes_in=changes_in)

    assert window(*lane).within(window(*queue)) == window(*both)
    assert window(*queue).within(window(*lane)) == window(*both)
