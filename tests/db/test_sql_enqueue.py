"""How jobs come in: many at once, with defaults, keys and word to the workers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.engine import NOON, Engine
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until

NOTIFY = json.dumps({"notify": True})


async def test_many_jobs_get_rising_ids_in_the_order_given(engine: Engine) -> None:
    tasks = [f"task {i}" for i in range(1000)]
    rows = await engine.call("enqueue_v1", tasks=tasks, args=["{}"] * 1000)
    ids = [row["id"] for row in rows]
    assert ids == sorted(ids)
    stored = await engine.connection.fetch("SELECT id, task FROM penstock.job ORDER BY id")
    assert [(row["id"], row["task"]) for row in stored] == list(zip(ids, tasks, strict=True))
    assert not any(row["duplicate"] for row in rows)


async def test_what_is_not_said_has_its_default(engine: Engine) -> None:
    engine.now = NOON
    [id] = await engine.enqueue()
    row = await engine.live(id)
    assert row is not None
    assert (row["state"], row["queue"], row["lane"], row["tenant"]) == ("ready", "default", "", "")
    assert (row["priority"], row["max_attempts"], row["max_losses"]) == (0, 5, 3)
    assert (row["attempt"], row["failures"], row["losses"]) == (0, 0, 0)
    assert (row["args"], row["args_version"], row["timeout"]) == ("{}", 1, None)
    assert row["created_at"] == row["run_at"] == row["ready_at"] == NOON
    assert (row["subject"], row["tags"], row["meta"], row["deadline"]) == (None, None, None, None)


async def test_a_null_among_given_values_is_the_default_too(engine: Engine) -> None:
    await engine.call(
        "enqueue_v1",
        tasks=["a", "b"],
        args=["{}", '{"x": 1}'],
        queues=[None, "mail"],
        priorities=[None, 7],
        max_attempts=[None, 1],
        tags=[None, '["x"]'],
    )
    rows = await engine.connection.fetch(
        "SELECT queue, priority, max_attempts, tags FROM penstock.job ORDER BY id"
    )
    assert [tuple(row) for row in rows] == [("default", 0, 5, None), ("mail", 7, 1, ["x"])]


async def test_a_delay_or_a_time_to_come_schedules_the_job(engine: Engine) -> None:
    engine.now = NOON
    [delayed] = await engine.enqueue(delays=90.0)
    [timed] = await engine.enqueue(run_ats=NOON + timedelta(hours=1))
    [past] = await engine.enqueue(run_ats=NOON - timedelta(hours=1))
    rows = [await engine.job(id) for id in (delayed, timed, past)]
    assert [(row["state"], row["run_at"], row["ready_at"]) for row in rows] == [
        ("scheduled", NOON + timedelta(seconds=90), None),
        ("scheduled", NOON + timedelta(hours=1), None),
        ("ready", NOON - timedelta(hours=1), NOON),
    ]


async def test_a_bulk_with_one_bad_job_enqueues_none(engine: Engine) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="job_numbers_in_range"):
        await engine.call(
            "enqueue_v1", tasks=["a", "b", "c"], args=["{}"] * 3, priorities=[0, 101, 0]
        )
    assert await engine.states() == {}


async def test_a_bulk_of_nothing_enqueues_nothing(engine: Engine) -> None:
    assert await engine.call("enqueue_v1", tasks=[], args=[], options=NOTIFY) == []


async def test_people_enqueue_with_one_call(engine: Engine) -> None:
    id = await engine.connection.fetchval(
        """SELECT penstock.enqueue('resize', '{"image": 7}', queue => 'media', priority => 5,
                                   delay => '2 minutes', tags => '{a,b}', meta => '{"m": 1}')"""
    )
    job = await engine.job(id)
    assert (job["task"], job["queue"], job["priority"]) == ("resize", "media", 5)
    assert (job["state"], job["tags"], job["timeout"]) == ("scheduled", ["a", "b"], 3600.0)
    assert job["run_at"] - job["created_at"] == timedelta(minutes=2)


# Idempotency keys


async def add(engine: Engine, *keys: str | None, **arguments: Any) -> list[tuple[int, bool]]:
    arguments.setdefault("fingerprints", [b"same"] * len(keys))
    rows = await engine.call(
        "enqueue_v1",
        tasks=["work"] * len(keys),
        args=["{}"] * len(keys),
        keys=list(keys),
        now=engine.now,
        **arguments,
    )
    return [(row["id"], row["duplicate"]) for row in rows]


async def test_a_key_that_was_used_answers_with_its_job(engine: Engine) -> None:
    [(first, new)] = await add(engine, "order:1")
    assert not new
    assert await add(engine, "order:1") == [(first, True)]
    assert list(await engine.states()) == [first]


async def test_a_key_outlives_its_job(engine: Engine) -> None:
    [(first, _)] = await add(engine, "order:1")
    [attempt] = await engine.claim(await engine.lease())
    await engine.settle([attempt])
    assert await add(engine, "order:1") == [(first, True)]
    assert await engine.states() == {first: "completed"}


async def test_a_key_given_twice_in_one_call_is_one_job(engine: Engine) -> None:
    added = await add(engine, "a", None, "b", "a", None, "b")
    ids = [id for id, _ in added]
    assert [duplicate for _, duplicate in added] == [False, False, False, True, False, True]
    assert (ids[3], ids[5]) == (ids[0], ids[2])
    assert sorted(await engine.states()) == sorted(set(ids))
    assert len(set(ids)) == 4


async def test_keys_of_different_tenants_do_not_meet(engine: Engine) -> None:
    added = await add(engine, "a", "a", "a", tenants=["acme", "globex", None])
    assert [duplicate for _, duplicate in added] == [False, False, False]
    assert await add(engine, "a", tenants=["acme"]) == [(added[0][0], True)]


@pytest.mark.parametrize("in_one_call", [True, False])
async def test_idempotency_key_with_other_arguments_enqueues_nothing(
    engine: Engine, in_one_call: bool
) -> None:
    before = {} if in_one_call else {id: "ready" for id, _ in await add(engine, "a")}
    keys = ["a", "new", "a"] if in_one_call else ["new", "a"]
    fingerprints = [b"same"] * (len(keys) - 1) + [b"other"]
    with pytest.raises(asyncpg.PostgresError) as caught:
        await add(engine, *keys, fingerprints=fingerprints)
    assert caught.value.sqlstate == "PS002"
    assert '"a"' in str(caught.value)
    assert await engine.states() == before
    assert not (await add(engine, "new"))[0][1]


async def test_a_key_is_free_again_after_its_time(engine: Engine) -> None:
    engine.now = NOON
    [(first, _)] = await add(engine, "a")
    engine.now = NOON + timedelta(days=7, microseconds=-1)
    assert await add(engine, "a") == [(first, True)]
    engine.now = NOON + timedelta(days=7)
    [(second, duplicate)] = await add(engine, "a", fingerprints=[b"other"])
    assert not duplicate
    assert second != first
    assert await add(engine, "a", fingerprints=[b"other"]) == [(second, True)]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_second_transaction_with_one_key_waits_for_the_first(
    engine: Engine, other: Engine, ending: str
) -> None:
    transaction = other.connection.transaction()
    await transaction.start()
    [(first, _)] = await add(other, "a")
    async with asyncio.TaskGroup() as group:
        second = group.create_task(add(engine, "a"))
        await until(other.keeps_waiting, what="the second enqueue to wait")
        await (transaction.commit() if ending == "commit" else transaction.rollback())
    [(id, duplicate)] = second.result()
    assert duplicate == (ending == "commit")
    assert (id == first) == (ending == "commit")
    assert list(await engine.states()) == [id]


async def test_keys_in_different_orders_do_not_deadlock(engine: Engine, other: Engine) -> None:
    keys = [f"key {i:03}" for i in range(300)]
    one, two = await asyncio.gather(add(engine, *keys), add(other, *reversed(keys)))
    assert [id for id, _ in one] == [id for id, _ in reversed(two)]
    assert len(await engine.states()) == 300


# Word to the workers


@asynccontextmanager
async def listening(database: Database, *channels: str) -> AsyncIterator[list[tuple[str, str]]]:
    """What arrives on channels of the schema, until the block ends."""
    heard: list[tuple[str, str]] = []
    async with connected(database.direct_url) as connection:

        def hear(_: object, __: int, channel: str, payload: object) -> None:
            heard.append((channel.removeprefix("penstock."), str(payload)))

        for channel in (*channels, "end"):
            await connection.add_listener(f"penstock.{channel}", hear)
        yield heard
        # Notifications arrive in the order of the commits: after this one none is on its way.
        await connection.execute("SELECT pg_notify('penstock.end', '')")
        await until(lambda: heard and heard[-1][0] == "end", what="the last notification")
        heard.pop()
        await connection.reset()


def lines(heard: list[tuple[str, str]]) -> list[tuple[str, str, int]]:
    told = [json.loads(payload) for channel, payload in heard if channel == "ready"]
    return sorted((queue, lane, priority) for queue, lane, priority, _ in told)


async def test_each_line_is_told_once_and_only_at_commit(
    database: Database, engine: Engine
) -> None:
    async with listening(database, "ready", "due") as before_commit:
        transaction = engine.connection.transaction()
        await transaction.start()
        await engine.call(
            "enqueue_v1",
            tasks=["work"] * 5,
            args=["{}"] * 5,
            queues=["mail", "mail", None, "mail", "mail"],
            lanes=["acme", "acme", None, "acme", "acme"],
            priorities=[1, 1, None, 2, 1],
            delays=[0.0, 0.0, 0.0, 0.0, 30.0],
            options=NOTIFY,
        )
    assert before_commit == []
    async with listening(database, "ready", "due") as heard:
        await transaction.commit()
    assert lines(heard) == [("default", "", 0), ("mail", "acme", 1), ("mail", "acme", 2)]
    assert len([each for each in heard if each[0] == "due"]) == 1


async def test_notifications_carry_the_first_ready_and_due_times(
    database: Database, engine: Engine
) -> None:
    async with listening(database, "ready", "due") as heard:
        await engine.call(
            "enqueue_v1", tasks=["a"] * 3, args=["{}"] * 3, delays=[0, 60, 30], options=NOTIFY
        )
    rows = await engine.connection.fetch(
        "SELECT extract(epoch FROM ready_at) AS ready, extract(epoch FROM run_at) AS due"
        " FROM penstock.job ORDER BY id"
    )
    told = {channel: json.loads(payload) for channel, payload in heard}
    assert told["ready"][3] <= rows[0]["ready"]
    assert told["due"] == pytest.approx(float(rows[2]["due"]))


async def test_a_rolled_back_enqueue_tells_nobody(database: Database, engine: Engine) -> None:
    async with listening(database, "ready", "due") as heard:
        transaction = engine.connection.transaction()
        await transaction.start()
        await engine.call("enqueue_v1", tasks=["a"], args=["{}"], options=NOTIFY)
        await transaction.rollback()
    assert heard == []


async def test_the_word_can_be_left_out(database: Database, engine: Engine) -> None:
    async with listening(database, "ready", "due") as heard:
        await engine.enqueue()
    assert heard == []


async def test_jobs_that_come_back_are_told_once_a_line(database: Database, engine: Engine) -> None:
    lease = await engine.lease()
    await engine.enqueue(6, lanes="acme")
    attempts = await engine.claim(lease, lines=[("acme", 0)])
    async with listening(database, "ready", "due") as heard:
        await engine.settle(attempts[:3], states="ready")
        await engine.settle(attempts[3:5], states="scheduled", delays=5.0)
    assert lines(heard) == [("default", "acme", 0)]
    assert [channel for channel, _ in heard if channel == "due"] == ["due"]

    async with listening(database, "ready") as heard:
        await engine.call("promote_v1", now=NOON + timedelta(days=2))
        await engine.value("release_jobs_v1", lease=lease)
    assert lines(heard) == [("default", "acme", 0)] * 2

    await engine.answers("cancel_v1", attempts[0]["id"], attempts[1]["id"])
    async with listening(database, "ready") as heard:
        await engine.answers("retry_v1", attempts[0]["id"], attempts[1]["id"])
    assert lines(heard) == [("default", "acme", 0)]

    await engine.claim(lease, lines=[("acme", 0)])
    async with listening(database, "ready") as heard:
        await engine.call("rescue_v1", now=NOON + timedelta(days=2))
    assert lines(heard) == [("default", "acme", 0)]


async def test_cancels_and_a_vacant_leadership_are_notified(
    database: Database, engine: Engine
) -> None:
    lease = await engine.lease()
    one, two = await engine.attempt(lease), await engine.attempt(lease)
    await engine.value("elect_v1", role="maintenance", lease=lease, ttl=60.0)
    async with listening(database, "signal", "leader") as heard:
        await engine.answers("cancel_v1", one["id"], two["id"])
        await engine.value("close_lease_v1", lease=lease)
    assert heard == [("signal", str(lease)), ("leader", "vacant")]


@pytest.mark.parametrize("given", ["run_at", "deadline"])
@pytest.mark.parametrize("time", ["-infinity", "0001-01-01Z", "9999-01-01Z", "infinity"])
async def test_a_time_that_no_worker_could_read_is_refused(
    engine: Engine, given: str, time: str
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="before 9999-01-01"):
        await engine.connection.execute(
            f"SELECT penstock.enqueue('a', {given} => '{time}'::timestamptz)"
        )
    latest = f"SELECT penstock.enqueue('a', {given} => '9998-12-31 23:59:59Z')"
    assert await engine.connection.fetchval(latest)
