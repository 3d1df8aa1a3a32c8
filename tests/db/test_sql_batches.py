"""The counts of a batch at every moment, and its callbacks, each once, whoever folds."""

import asyncio
import json
import random
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.engine import Engine
from tests.fixtures.database import Database
from tests.fixtures.until import until

EVERY = {moment: {"task": moment} for moment in ("success", "end", "failure")}
COUNTS = """
SELECT b.total + coalesce(sum(d.total), 0) AS total,
       b.pending + coalesce(sum(d.pending), 0) AS pending,
       b.completed + coalesce(sum(d.completed), 0) AS completed,
       b.failed + coalesce(sum(d.failed), 0) AS failed,
       b.cancelled + coalesce(sum(d.cancelled), 0) AS cancelled
  FROM penstock.batch AS b LEFT JOIN penstock.batch_delta AS d ON d.batch = b.id
 WHERE b.id = $1 GROUP BY b.id
"""


async def opened(engine: Engine, callbacks: dict[str, Any] = EVERY, tenant: str = "") -> int:
    return await engine.connection.fetchval(
        "INSERT INTO penstock.batch (tenant, callbacks) VALUES ($1, $2) RETURNING id",
        tenant,
        json.dumps(callbacks),
    )


async def add(engine: Engine, batch: int, count: int = 1, **more: Any) -> list[int]:
    rows = await engine.call(
        "enqueue_v1", tasks=["work"] * count, args=["{}"] * count, batch=batch, **more
    )
    return [row["id"] for row in rows]


async def close(engine: Engine, *batches: int, cancel: bool = False) -> None:
    await engine.call("close_batch_v1", batches=list(batches), cancel=cancel)


async def fold(engine: Engine) -> int:
    return await engine.value("fold_v1")


async def counts(engine: Engine, batch: int) -> tuple[int, ...]:
    """Total, pending, completed, failed, cancelled, as of one moment."""
    row = await engine.connection.fetchrow(COUNTS, batch)
    assert row is not None
    assert row["total"] == sum(list(row)[1:])
    return tuple(int(each) for each in row)


async def called(engine: Engine) -> list[str]:
    """The callbacks that were enqueued, live or final."""
    rows = await engine.connection.fetch(
        "SELECT task FROM penstock.job_all WHERE task <> 'work' ORDER BY task"
    )
    return [row["task"] for row in rows]


async def is_finished(engine: Engine, batch: int) -> bool:
    return await engine.connection.fetchval(
        "SELECT finished_at IS NOT NULL FROM penstock.batch WHERE id = $1", batch
    )


async def settled(engine: Engine, ids: list[int], **columns: Any) -> None:
    """Run these and no others."""
    claimed = await engine.claim(await engine.lease())
    mine = [each for each in claimed if each["id"] in ids]
    assert len(mine) == len(ids)
    assert await engine.settle(mine, **columns) == {}


async def test_counts_move_at_once_and_the_fold_changes_none(engine: Engine) -> None:
    batch = await opened(engine)
    one, two, three = await add(engine, batch, 3)
    assert await counts(engine, batch) == (3, 3, 0, 0, 0)
    attempts = {each["id"]: each for each in await engine.claim(await engine.lease())}
    await engine.settle([attempts[one]])
    assert await counts(engine, batch) == (3, 2, 1, 0, 0)
    await engine.settle([attempts[two]], states="failed", reasons="exhausted")
    await engine.answers("cancel_v1", three)
    assert await counts(engine, batch) == (3, 0, 1, 1, 1)
    assert await fold(engine) == 4
    assert await counts(engine, batch) == (3, 0, 1, 1, 1)
    assert await fold(engine) == 0


async def test_nothing_is_finished_before_it_is_closed(engine: Engine) -> None:
    batch = await opened(engine)
    await settled(engine, await add(engine, batch, 2))
    await fold(engine)
    assert not await is_finished(engine, batch)
    assert await called(engine) == []
    await close(engine, batch)
    await fold(engine)
    assert await is_finished(engine, batch)
    assert await called(engine) == ["end", "success"]


async def test_closing_again_or_folding_again_calls_nobody_back(engine: Engine) -> None:
    batch = await opened(engine)
    await close(engine, batch)
    for _ in range(3):
        await fold(engine)
        await close(engine, batch)
    assert await called(engine) == ["end", "success"]


async def test_failure_retried_before_the_fold_still_calls_back(engine: Engine) -> None:
    batch = await opened(engine)
    [job] = await add(engine, batch)
    await settled(engine, [job], states="failed", reasons="exhausted")
    await engine.answers("retry_v1", job)
    await settled(engine, [job])
    await close(engine, batch)
    await fold(engine)
    assert await called(engine) == ["end", "failure", "success"]


async def test_a_retry_that_ends_before_the_fold_still_brings_success(engine: Engine) -> None:
    batch = await opened(engine)
    [job] = await add(engine, batch)
    await settled(engine, [job], states="failed", reasons="exhausted")
    await close(engine, batch)
    await fold(engine)
    assert await called(engine) == ["end", "failure"]
    await engine.answers("retry_v1", job)
    await settled(engine, [job])
    await fold(engine)
    assert await called(engine) == ["end", "failure", "success"]
    assert await is_finished(engine, batch)


async def test_retried_job_reopens_its_batch_until_it_ends(engine: Engine) -> None:
    batch = await opened(engine)
    [job] = await add(engine, batch)
    await settled(engine, [job])
    await close(engine, batch)
    await fold(engine)
    await engine.answers("retry_v1", job)
    await fold(engine)
    assert not await is_finished(engine, batch)
    assert await counts(engine, batch) == (1, 1, 0, 0, 0)
    await settled(engine, [job])
    await fold(engine)
    assert await is_finished(engine, batch)
    assert await called(engine) == ["end", "success"]


async def test_retry_held_by_a_unique_key_leaves_batch_finished(engine: Engine) -> None:
    batch = await opened(engine)
    rule = json.dumps({"key": "k"})
    [job] = await add(engine, batch, uniques=[rule])
    await settled(engine, [job], states="failed", reasons="exhausted")
    await close(engine, batch)
    await fold(engine)
    await engine.enqueue(uniques=rule)
    assert await engine.answers("retry_v1", job) == {job: "held"}
    await fold(engine)
    assert await is_finished(engine, batch)
    assert await counts(engine, batch) == (1, 0, 0, 1, 0)


async def test_a_batch_that_was_given_up_has_no_success(engine: Engine) -> None:
    batch = await opened(engine)
    await settled(engine, await add(engine, batch, 2))
    await close(engine, batch, cancel=True)
    await fold(engine)
    assert await called(engine) == ["end"]


async def test_a_close_waits_for_whoever_is_adding(engine: Engine, other: Engine) -> None:
    batch = await opened(engine)
    adding = engine.connection.transaction()
    await adding.start()
    await add(engine, batch, 2)
    async with asyncio.TaskGroup() as group:
        closing = group.create_task(close(other, batch))
        await until(engine.keeps_waiting, what="the close to wait")
        assert not closing.done()
        await adding.commit()
    assert await counts(engine, batch) == (2, 2, 0, 0, 0)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await add(engine, batch)
    assert refused.value.sqlstate == "PS012"
    assert await counts(engine, batch) == (2, 2, 0, 0, 0)


async def test_a_fold_does_not_finish_a_batch_that_somebody_adds_to(
    engine: Engine, other: Engine
) -> None:
    """Its running job adds, ends and is counted; the batch must not end without what was added."""
    batch = await opened(engine)
    [job] = await add(engine, batch)
    [attempt] = await engine.claim(await engine.lease())
    await close(engine, batch)
    adding = engine.connection.transaction()
    await adding.start()
    await add(engine, batch, options=json.dumps({"adder": job}))
    await other.settle([attempt])
    assert await fold(other) > 0
    assert await fold(other) == 0  # nothing to count, but it will look again
    assert await counts(other, batch) == (1, 0, 1, 0, 0)
    assert not await is_finished(other, batch)
    await adding.commit()
    await fold(other)
    assert not await is_finished(engine, batch)
    assert await counts(engine, batch) == (2, 1, 1, 0, 0)


async def test_a_fold_counts_what_somebody_adds_to_and_none_waits(
    engine: Engine, other: Engine
) -> None:
    batch = await opened(engine)
    await settled(engine, await add(engine, batch))
    adding = engine.connection.transaction()
    await adding.start()
    await add(engine, batch)
    folding = other.connection.transaction()
    await folding.start()
    assert await fold(other) == 2
    await add(engine, batch)
    await adding.commit()
    await folding.commit()
    assert await counts(engine, batch) == (3, 2, 1, 0, 0)


async def test_who_began_before_a_fold_adds_all_the_same(engine: Engine, other: Engine) -> None:
    batch = await opened(engine)
    await settled(engine, await add(engine, batch))
    async with engine.connection.transaction(isolation="repeatable_read"):
        await engine.connection.fetch("SELECT FROM penstock.job")
        assert await fold(other) == 2
        await add(engine, batch)
    assert await counts(engine, batch) == (2, 1, 1, 0, 0)


async def test_who_began_before_the_close_adds_nothing_after_it(
    engine: Engine, other: Engine
) -> None:
    batch = await opened(engine)
    adding = engine.connection.transaction(isolation="repeatable_read")
    await adding.start()
    await engine.connection.fetch("SELECT FROM penstock.job")
    await close(other, batch)
    with pytest.raises(asyncpg.SerializationError):
        await add(engine, batch)
    await adding.rollback()
    await fold(other)
    assert await is_finished(engine, batch)


async def test_a_batch_is_folded_at_its_pace_but_its_end_does_not_wait(engine: Engine) -> None:
    batch = await opened(engine)
    ids = await add(engine, batch, 3)
    await settled(engine, ids[:1])
    assert await paced(engine) == (2, 0)
    await engine.answers("cancel_v1", ids[1])
    assert await paced(engine) == (0, 1)
    await close(engine, batch)
    assert await paced(engine) == (0, 1)
    await engine.answers("cancel_v1", ids[2])
    assert await paced(engine) == (3, 0)
    assert await is_finished(engine, batch)


async def test_a_clock_that_was_set_back_stops_no_fold(engine: Engine) -> None:
    batch = await opened(engine)
    await engine.connection.execute(
        "UPDATE penstock.batch SET folded_at = now() + interval '1 year'"
    )
    await add(engine, batch)
    assert await paced(engine) == (1, 0)


async def paced(engine: Engine) -> tuple[int, int]:
    """Deltas that were moved, batches that were passed."""
    [row] = await engine.call("fold_v1", pace=3600.0)
    return row["moved"], row["passed"]


async def test_batches_that_are_held_keep_no_other_from_being_folded(
    engine: Engine, other: Engine
) -> None:
    batches = [await opened(engine) for _ in range(3)]
    for batch in batches:
        await add(engine, batch)
    holding = other.connection.transaction()
    await holding.start()
    await other.connection.execute(
        "SELECT FROM penstock.batch WHERE id <> $1 FOR UPDATE", batches[1]
    )
    seen, after = [], 0
    for _ in range(4):
        [row] = await engine.call("fold_v1", limit=1, after=after)
        after = row["upto"]
        seen.append((after, row["moved"], row["passed"]))
    first, second, third = batches
    assert seen == [(first, 0, 1), (second, 1, 0), (third, 0, 1), (first, 0, 1)]
    await holding.rollback()
    [row] = await engine.call("fold_v1", after=second)
    assert (row["moved"], row["upto"]) == (2, first)


async def test_a_fold_says_whether_any_batch_is_unfinished(engine: Engine) -> None:
    assert await is_idle(engine)
    batch = await opened(engine, {})
    assert not await is_idle(engine)
    await close(engine, batch)
    assert await is_idle(engine)


async def is_idle(engine: Engine) -> bool:
    [row] = await engine.call("fold_v1")
    return row["is_idle"]


@pytest.mark.parametrize("adder", ["another batch's", "waiting", "ended"])
async def test_only_a_running_job_of_its_own_adds_to_a_closed_batch(
    engine: Engine, adder: str
) -> None:
    batch, another = await opened(engine), await opened(engine)
    [job] = await add(engine, another if adder == "another batch's" else batch)
    if adder != "waiting":
        [attempt] = await engine.claim(await engine.lease())
        if adder == "ended":
            await engine.settle([attempt])
    await close(engine, batch)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await add(engine, batch, options=json.dumps({"adder": job}))
    assert refused.value.sqlstate == "PS012"


async def test_two_who_fold_at_once_call_back_once(engine: Engine, other: Engine) -> None:
    batch = await opened(engine)
    await settled(engine, await add(engine, batch, 2))
    await close(engine, batch)
    first = engine.connection.transaction()
    await first.start()
    assert await fold(engine) > 0
    assert await fold(other) == 0  # passes the batch, waits for nobody
    await first.commit()
    await fold(other)
    assert await called(engine) == ["end", "success"]


async def test_a_fold_that_is_rolled_back_has_called_nobody(engine: Engine) -> None:
    batch = await opened(engine)
    await close(engine, batch)
    folding = engine.connection.transaction()
    await folding.start()
    await fold(engine)
    await folding.rollback()
    assert await called(engine) == []
    await fold(engine)
    assert await called(engine) == ["end", "success"]


async def test_a_retry_while_the_batch_is_finished_comes_after_it(
    engine: Engine, other: Engine
) -> None:
    """Neither waits for the other, and no count and no callback is lost or doubled."""
    batch = await opened(engine)
    [job] = await add(engine, batch)
    await settled(engine, [job], states="failed", reasons="exhausted")
    await close(engine, batch)
    retrying = other.connection.transaction()
    await retrying.start()
    await other.answers("retry_v1", job)
    await fold(engine)
    assert await is_finished(engine, batch)
    await retrying.commit()
    assert await counts(engine, batch) == (1, 1, 0, 0, 0)
    await fold(engine)
    assert not await is_finished(engine, batch)
    await settled(engine, [job])
    await fold(engine)
    assert await called(engine) == ["end", "failure", "success"]


async def test_a_callback_that_is_refused_holds_up_its_own_batch_alone(engine: Engine) -> None:
    broken = await opened(engine, {"end": {"task": "end", "priority": 30_000}})
    sound = await opened(engine)
    await close(engine, broken, sound)
    warned: list[str] = []
    engine.connection.add_log_listener(lambda _, message: warned.append(message.message))
    await fold(engine)
    assert await is_finished(engine, sound)
    assert not await is_finished(engine, broken)
    assert f"A callback of batch {broken} cannot be enqueued" in warned[0]
    assert await fold(engine) == 0  # tried again, but no reason to hurry
    await engine.connection.execute("UPDATE penstock.batch SET callbacks = NULL")
    await fold(engine)
    assert await is_finished(engine, broken)


async def test_a_tenants_batch_calls_back_as_no_other_tenant(engine: Engine) -> None:
    crossing = {"end": {"task": "end", "tenant": "b"}}
    ours, nobodys = await opened(engine, crossing, "a"), await opened(engine, crossing)
    await close(engine, ours, nobodys)
    await fold(engine)
    rows = await engine.connection.fetch(
        "SELECT meta ->> 'batch' AS batch, tenant FROM penstock.job"
    )
    assert {int(row["batch"]): row["tenant"] for row in rows} == {ours: "a", nobodys: "b"}


async def test_the_rate_is_that_of_late(engine: Engine) -> None:
    batch = await opened(engine)
    ids = await add(engine, batch, 100)
    await fold(engine)
    folded_at = await engine.connection.fetchval(
        "UPDATE penstock.batch SET rate = 0, rate_weight = 0, folded_at = now() RETURNING folded_at"
    )
    await settled(engine, ids)
    await engine.call("fold_v1", now=folded_at + timedelta(seconds=10))
    row = await engine.connection.fetchrow("SELECT rate / rate_weight AS rate FROM penstock.batch")
    assert row is not None
    assert row["rate"] == pytest.approx(10)


async def test_idle_time_does_not_lower_the_rate_of_a_batch(engine: Engine) -> None:
    batch = await opened(engine)
    await settled(engine, await add(engine, batch, 100))
    await fold(engine)
    await engine.connection.execute(
        "UPDATE penstock.batch"
        " SET rate = 10, rate_weight = 1, folded_at = now() - interval '1 hour'"
    )
    ids = await add(engine, batch, 100)
    now = await engine.connection.fetchval("SELECT now()")
    await engine.connection.execute(
        "UPDATE penstock.batch_delta SET created_at = $1", now - timedelta(seconds=5)
    )
    await settled(engine, ids[:50])
    await engine.call("fold_v1", now=now)
    row = await engine.connection.fetchrow("SELECT rate / rate_weight AS rate FROM penstock.batch")
    assert row is not None
    assert row["rate"] == pytest.approx(10)


async def test_a_batch_that_lay_still_for_long_is_folded(engine: Engine) -> None:
    batch = await opened(engine)
    await settled(engine, await add(engine, batch))
    await fold(engine)
    for age in ("9 hours", *["9 minutes"] * 40):
        sql = f"UPDATE penstock.batch SET folded_at = now() - interval '{age}'"
        await engine.connection.execute(sql)
        await add(engine, batch)
        assert await fold(engine) == 1


async def test_job_of_a_swept_batch_leaves_no_counts_when_retried(engine: Engine) -> None:
    batch = await opened(engine)
    [job] = await add(engine, batch)
    await settled(engine, [job])
    await engine.connection.execute("DELETE FROM penstock.batch_delta")
    await engine.connection.execute("DELETE FROM penstock.batch")
    await engine.call("retry_v1", ids=[job])
    await settled(engine, [job])
    await fold(engine)
    assert await engine.connection.fetchval("SELECT count(*) FROM penstock.batch_delta") == 0


class Crowd:
    """Several connections that add to, run, cancel, retry and fold one batch, as they like."""

    def __init__(self, database: Database, batch: int, seed: int) -> None:
        self._database = database
        self._batch = batch
        self._seed = seed

    async def one(self, number: int, steps: int) -> None:
        chance = random.Random(f"{self._seed} {number}")
        async with self._database.connect() as connection:
            engine = Engine(connection)
            lease = await engine.lease()
            for _ in range(steps):
                deed = chance.choice(("add", "run", "run", "cancel", "retry", "fold"))
                await getattr(self, deed)(engine, lease, chance)
                await counts(engine, self._batch)

    async def add(self, engine: Engine, lease: int, chance: random.Random) -> None:
        try:
            await add(engine, self._batch, chance.randint(1, 5))
        except asyncpg.PostgresError as error:
            if error.sqlstate != "PS012":
                raise

    async def run(self, engine: Engine, lease: int, chance: random.Random) -> None:
        claimed = await engine.claim(lease, chance.randint(1, 5))
        state = chance.choice(("completed", "completed", "failed"))
        await engine.settle(claimed, states=state, reasons=None if state == "completed" else "x")

    async def cancel(self, engine: Engine, lease: int, chance: random.Random) -> None:
        await engine.answers("cancel_v1", *await self._some(engine, "job", chance))

    async def retry(self, engine: Engine, lease: int, chance: random.Random) -> None:
        await engine.answers("retry_v1", *await self._some(engine, "job_history", chance))

    async def fold(self, engine: Engine, lease: int, chance: random.Random) -> None:
        if chance.random() < 0.1:
            await close(engine, self._batch)
        await fold(engine)

    async def _some(self, engine: Engine, table: str, chance: random.Random) -> list[int]:
        rows = await engine.connection.fetch(
            f"SELECT id FROM penstock.{table} WHERE batch = $1 "
            "ORDER BY md5(id::text || $2) LIMIT 2",
            self._batch,
            str(chance.random()),
        )
        return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("seed", range(3))
async def test_counts_add_up_while_many_change_the_batch(
    engine: Engine, database: Database, seed: int
) -> None:
    batch = await opened(engine)
    await add(engine, batch, 10)
    crowd = Crowd(database, batch, seed)
    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(crowd.one(number, 25))
    lease = await engine.lease()
    await close(engine, batch)
    while claimed := await engine.claim(lease):
        await engine.settle(claimed)
        await fold(engine)
    while await fold(engine):
        pass
    total, pending, *ended = await counts(engine, batch)
    rows = await engine.connection.fetch(
        "SELECT state, count(*) FROM penstock.job_history WHERE batch = $1 GROUP BY state", batch
    )
    states = {row["state"]: row["count"] for row in rows}
    assert ended == [states.get(name, 0) for name in ("completed", "failed", "cancelled")]
    assert (pending, total) == (0, sum(states.values()))
    assert await is_finished(engine, batch)
    names = await called(engine)
    assert len(names) == len(set(names))
    assert "end" in names
