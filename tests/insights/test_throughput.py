"""What is seen of jobs that ended."""

import asyncpg
import pytest

from penstock import Penstock
from penstock.insights import Insights
from tests.fixtures.elapsed import Elapsed
from tests.fixtures.worker import worker_of
from tests.insights.history import fill


async def test_what_ended_is_counted_by_task_and_outcome(app: Penstock, insights: Insights) -> None:
    @app.task
    async def send() -> None: ...

    @app.task(max_attempts=1)
    async def fail() -> None:
        raise ValueError("no")

    await app.enqueue_many([send.prepare() for _ in range(6)])
    await app.enqueue_many([fail.prepare() for _ in range(2)])
    cancelled = await app.enqueue(send.options(delay=60))
    await app.cancel(cancelled)
    await worker_of(app).drain()
    minute, hour, day = await insights.throughput()
    assert (minute.window, hour.window, day.window) == (60, 3600, 86_400)
    for window in (minute, hour, day):
        assert window.is_whole
        assert (window.total.completed, window.total.failed, window.total.cancelled) == (6, 2, 1)
        assert window.total.number == 9
        assert window.total.failure_rate == pytest.approx(2 / 8)
        by_task = {ended.task: ended for ended in window.tasks}
        assert by_task[send.name].failure_rate == 0
        assert by_task[fail.name].failed == 2
    assert minute.total.per_second == pytest.approx(9 / 60)
    # The one that never ran has neither waited for a worker nor run.
    assert minute.total.ran is not None
    assert 0 < minute.total.ran.p50 <= minute.total.ran.p99


async def test_nothing_ended(insights: Insights) -> None:
    [minute] = await insights.throughput([60])
    assert (minute.total.number, minute.tasks) == (0, ())
    assert minute.total.failure_rate is None
    assert minute.total.waited is None


async def test_what_ended_earlier_than_the_window_does_not_count(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    elapsed = Elapsed()
    await fill(connection, jobs=1200, per_second=1)
    short, long = await insights.throughput([600, 100])
    # One ended each second.
    assert elapsed.explains(100 - short.total.completed, edge=1)
    assert elapsed.explains(600 - long.total.completed, edge=1)
    assert long.total.waited is not None
    assert long.total.waited.p50 == pytest.approx(2)
    assert long.total.ran is not None
    assert long.total.ran.p99 == pytest.approx(1)


SINCE_THE_LAST = """
SELECT extract(epoch FROM clock_timestamp() - max(finished_at))::float FROM penstock.job_history
"""


async def test_bounded_read_shortens_the_window_and_keeps_the_rate(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fill(connection, jobs=20_000, per_second=500)
    before = await connection.fetchval(SINCE_THE_LAST)
    [minute] = await insights.throughput([30], blocks=40)
    after = await connection.fetchval(SINCE_THE_LAST)
    assert not minute.is_whole
    assert 0 < minute.covered < 30
    # What has passed since the last of them ended is a part of the window, in which none ended.
    least, most = [500 * (minute.covered - quiet) for quiet in (after, before)]
    assert 0.95 * least - 500 <= minute.total.number <= 1.05 * most + 500


async def test_other_retentions_are_counted_too(
    app: Penstock, insights: Insights, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO penstock.retention (state, queue, days) VALUES ('completed', 'mail', 3)"
    )

    @app.task
    async def send() -> None: ...

    await app.enqueue_many([send.options(queue="mail").prepare(), send.prepare()])
    await worker_of(app, ["mail", "default"]).drain()
    [minute] = await insights.throughput([60])
    assert minute.total.completed == 2
