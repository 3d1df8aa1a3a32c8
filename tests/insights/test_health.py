"""Healthy, degraded or down: each threshold, on real rows."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.errors import ConfigError
from penstock.insights import Health, Insights, Thresholds
from tests.fixtures.elapsed import Elapsed
from tests.fixtures.worker import worker_of
from tests.insights.history import fill
from tests.insights.rows import fair, lease, put

NEVER = '{"timezone": "UTC", "open": []}'
INFO = '{"queues": {"imports": 4}}'


def told(health: Health) -> list[tuple[str, str]]:
    return [(cause.check, cause.status) for cause in health.causes]


async def looked(insights: Insights, **thresholds: Any) -> Health:
    # Of a busy machine nothing is to be told, unless that is the question.
    return await insights.health(
        Thresholds(**{"latency_degraded": 60.0, "latency_down": 60.0, **thresholds})
    )


async def fail(connection: asyncpg.Connection, number: int) -> None:
    """Let some of the jobs that ended have failed."""
    await connection.execute(
        "UPDATE penstock.job_history SET state = 'failed', reason = 'exhausted' WHERE id IN "
        "(SELECT id FROM penstock.job_history ORDER BY finished_at DESC LIMIT $1)",
        number,
    )


async def test_an_empty_queue_is_healthy(insights: Insights) -> None:
    health = await looked(insights)

    assert (health.status, health.causes) == ("healthy", ())
    assert (health.workers, health.per_hour, health.last_processed) == (0, 0.0, None)
    assert (health.mean_seconds, health.error_rate) == (None, None)


async def test_the_numbers(insights: Insights, connection: asyncpg.Connection) -> None:
    await fill(connection, 100, per_second=1)
    await lease(connection, "a", info=INFO)
    await put(connection, jobs=3)

    elapsed = Elapsed()
    health = await looked(insights)

    assert health.status == "healthy"
    assert (health.pending.number, health.running.number, health.workers) == (3, 0, 1)
    assert health.mean_seconds == pytest.approx(1.0)
    assert health.error_rate == 0.0
    assert health.per_hour == pytest.approx(101, abs=1)
    assert health.last_processed is not None
    assert datetime.now(UTC) - health.last_processed < timedelta(minutes=1)
    assert health.latency > 0
    assert elapsed.explains(health.latency)


async def test_without_any_worker_ready_jobs_mean_down(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await put(connection, age=31)

    assert told(await looked(insights)) == [("unserved", "down")]
    assert told(await looked(insights, unserved=60)) == []


async def test_a_queue_that_no_worker_serves_is_degraded(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await lease(connection, "a", info='{"queues": {"mail": 1}}')
    await put(connection, age=31)

    health = await looked(insights)

    assert told(health) == [("unserved", "degraded")]
    assert "imports" in health.causes[0].told


async def test_of_very_many_workers_it_says_how_many_it_looked_at(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO penstock.lease (worker, expires_at)"
        " SELECT 'w' || n, now() + interval '1 hour' FROM generate_series(1, 1002) AS n"
    )
    await put(connection, age=31)

    health = await looked(insights)

    assert (health.workers, health.workers_left_out) == (1002, 2)
    assert "none of the 1,000 workers that were looked at serves it" in health.causes[0].told


@pytest.mark.parametrize(
    ("age", "causes"),
    [
        (290, []),
        (301, [("oldest-ready", "degraded")]),
        (3601, [("oldest-ready", "down")]),
    ],
)
async def test_jobs_that_wait_for_long(
    insights: Insights, connection: asyncpg.Connection, age: float, causes: list[tuple[str, str]]
) -> None:
    await lease(connection, "a", info=INFO)
    await put(connection, age=age)

    health = await looked(insights)

    assert told(health) == causes
    assert health.status == (causes[0][1] if causes else "healthy")


async def test_what_is_paused_or_out_of_hours_may_wait(
    insights: Insights, app: Penstock, connection: asyncpg.Connection
) -> None:
    await put(connection, age=4000)
    await put(connection, queue="nightly", age=4000)
    await app.pause("imports")
    await fair(connection, "nightly", windows=NEVER)

    assert told(await looked(insights)) == []


@pytest.mark.parametrize(
    ("failed", "causes"),
    [
        (9, []),
        (11, [("error-rate", "degraded")]),
        (51, [("error-rate", "down")]),
    ],
)
async def test_errors(
    insights: Insights, connection: asyncpg.Connection, failed: int, causes: list[tuple[str, str]]
) -> None:
    await fill(connection, 99, per_second=1)
    await fail(connection, failed)

    assert told(await looked(insights)) == causes


async def test_a_few_errors_among_few_jobs_are_no_rate(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    await fill(connection, 10, per_second=1)
    await fail(connection, 10)

    assert told(await looked(insights)) == []
    assert told(await looked(insights, error_rate_least=5)) == [("error-rate", "down")]


async def test_dead_letters_that_grow(insights: Insights, connection: asyncpg.Connection) -> None:
    await fill(connection, 2000, per_second=1)
    await fail(connection, 100)

    assert told(await looked(insights, error_rate_degraded=1, error_rate_down=1)) == [
        ("dead-letters", "degraded")
    ]


async def test_workers_that_are_lost(insights: Insights, connection: asyncpg.Connection) -> None:
    await lease(connection, "a", info=INFO)
    await lease(connection, "b", info=INFO)
    await connection.execute(
        "UPDATE penstock.lease SET expires_at = clock_timestamp() WHERE worker = 'b'"
    )

    health = await looked(insights)

    assert told(health) == [("lost-workers", "degraded")]
    assert "b" in health.causes[0].told
    assert told(await looked(insights, lost_workers=2)) == []


async def test_workers_that_cannot_write_outcomes(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    unwritten = {"jobs": 2, "error": "RaiseError", "message": "the history is closed"}
    await lease(connection, "a", info=json.dumps({**json.loads(INFO), "unwritten": unwritten}))

    health = await looked(insights)
    assert told(health) == [("unwritten", "down")]
    assert "the history is closed" in health.causes[0].told

    await lease(connection, "b", info=INFO)
    assert told(await looked(insights)) == [("unwritten", "degraded")]


async def test_worker_with_one_unwritten_outcome_is_degraded(
    insights: Insights, connection: asyncpg.Connection
) -> None:
    unwritten = {"jobs": 1, "error": "RaiseError", "message": "odd", "is_claiming": True}
    await lease(connection, "a", info=json.dumps({**json.loads(INFO), "unwritten": unwritten}))

    health = await looked(insights)
    assert told(health) == [("unwritten", "degraded")]
    assert "goes on with others" in health.causes[0].told


async def test_a_database_that_is_slow(insights: Insights) -> None:
    assert told(await looked(insights, latency_degraded=0.0)) == [("database", "degraded")]
    slow = await looked(insights, latency_degraded=0.0, latency_down=0.0)
    assert (slow.status, told(slow)) == ("down", [("database", "down")])


async def test_the_worst_decides(insights: Insights, connection: asyncpg.Connection) -> None:
    await put(connection, age=301)

    health = await looked(insights)

    assert told(health) == [("unserved", "down"), ("oldest-ready", "degraded")]
    assert health.status == "down"


async def test_a_real_worker_makes_it_healthy(insights: Insights, app: Penstock) -> None:
    @app.task
    async def work() -> None: ...

    await app.enqueue(work)
    async with worker_of(app):
        await app.wait(await app.enqueue(work), timeout=30)
        health = await looked(insights)

    assert (health.status, health.workers) == ("healthy", 1)
    assert health.per_hour >= 1


def test_the_environment_moves_thresholds() -> None:
    given = Thresholds.of({"PENSTOCK_HEALTH": "error_rate_down=0.3, dead_hourly=10"})

    assert given == Thresholds(error_rate_down=0.3, dead_hourly=10)
    assert Thresholds.of({}) == Thresholds()


@pytest.mark.parametrize(
    "text", ["errors=1", "dead_hourly=many", "unserved=-1", "latency_down=0.1", "window=0"]
)
def test_a_threshold_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        Thresholds.of({"PENSTOCK_HEALTH": text})
