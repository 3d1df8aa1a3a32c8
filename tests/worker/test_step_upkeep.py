"""How often a leader looks after what jobs keep and wait for."""

from typing import TypeVar

import asyncpg
import pytest

from penstock import Penstock
from penstock.lifecycle import DatabaseHealth
from penstock.maintenance import chores
from penstock.maintenance.chores import CacheSweeper, Chore, EventSweeper, StepSweeper, Waker

pytestmark = pytest.mark.any_pooler

C = TypeVar("C", bound=Chore)

EVERY = 60.0
STEPS = (
    "INSERT INTO penstock.step (job, name, result)"
    " SELECT job, 'fetch', '1' FROM generate_series(1, 5) AS job"
)
WAIT = (
    "INSERT INTO penstock.event_wait (job, step, tenant, name, after_event, until)"
    " VALUES (1, 'approved:1', '', 'approved', 0, now() + $1::text::interval)"
)
CACHED = (
    "INSERT INTO penstock.step_cache (tenant, key, size, created_at, used_at, expires_at, result)"
    " SELECT '', sha256(n::text::bytea), 10, now(), now(), now() + interval '1 day', '1'"
    " FROM generate_series(1, 5) AS n"
)


@pytest.fixture(autouse=True)
def helpings_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chores, "MAX_ROWS_PER_RUN", 2)


async def chore(app: Penstock, kind: type[C], **more: int) -> C:
    health = DatabaseHealth(app.events)
    return kind(await app.pool(), app.store, health, lambda: True, EVERY, **more)


async def test_waits_are_looked_after_less_often_while_there_are_none(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    waker = await chore(app, Waker)
    assert await waker.tick() == 5 * EVERY
    await connection.execute(WAIT, "1 hour")
    assert await waker.tick() == EVERY
    await connection.execute("DELETE FROM penstock.event_wait")
    assert await waker.tick() == 5 * EVERY


@pytest.mark.parametrize("kind", [StepSweeper, EventSweeper])
async def test_a_walk_goes_on_until_its_end(
    app: Penstock, connection: asyncpg.Connection, kind: type[Chore]
) -> None:
    await connection.execute(STEPS)
    await connection.execute(
        "INSERT INTO penstock.event_wait (job, step, tenant, name, after_event)"
        " SELECT job, 'approved:1', '', 'approved', 0 FROM generate_series(1, 5) AS job"
    )
    walk = await chore(app, kind)
    rests = [await walk.tick() for _ in range(4)]
    assert max(rests[:3]) < EVERY == rests[3]
    table = "step" if kind is StepSweeper else "event_wait"
    assert await connection.fetchval(f"SELECT count(*) FROM penstock.{table}") == 0


async def test_cache_is_measured_rarely_and_its_excess_goes_at_once(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    async def left() -> int:
        return int(await connection.fetchval("SELECT count(*) FROM penstock.step_cache"))

    sweeper = await chore(app, CacheSweeper, size=20)
    await connection.execute(CACHED)
    assert [await sweeper.tick() for _ in range(2)] == [0, EVERY]
    assert await left() == 2
    await connection.execute("DELETE FROM penstock.step_cache")
    await connection.execute(CACHED)
    for _ in range(9):
        assert (await sweeper.tick(), await left()) == (EVERY, 5)
    assert (await sweeper.tick(), await left()) == (0, 3)
