"""The SQL of durable steps: who may write them, what stays, what is swept."""

from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.db.engine import NOON, Engine

STALE = "PS003"


async def save(engine: Engine, attempt: Any, name: str = "fetch", **given: Any) -> float:
    given = {"kind": "step", "result": "1", **given}
    return float(
        await engine.value(
            "save_step_v1",
            job=attempt["id"],
            token=attempt["token"],
            name=name,
            now=engine.now,
            **given,
        )
    )


async def steps(engine: Engine, attempt: Any) -> dict[str, str]:
    rows = await engine.call("read_steps_v1", job=attempt["id"], token=attempt["token"])
    return {row["name"]: row["result"] for row in rows}


async def test_a_step_is_read_by_the_next_attempt(engine: Engine) -> None:
    attempt = await engine.attempt()
    assert await steps(engine, attempt) == {}
    await save(engine, attempt, result='{"a": 1}')
    await engine.settle([attempt], states=["ready"])
    [again] = await engine.claim(await engine.lease())
    assert await steps(engine, again) == {"fetch": '{"a": 1}'}


async def test_an_old_token_neither_writes_nor_reads_a_step(engine: Engine) -> None:
    attempt = await engine.attempt()
    await engine.settle([attempt], states=["ready"])
    [again] = await engine.claim(await engine.lease())
    for call in (save(engine, attempt), steps(engine, attempt)):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await call
        assert refused.value.sqlstate == STALE
    with pytest.raises(asyncpg.PostgresError):
        await save(engine, {"id": again["id"], "token": uuid4()})
    assert await steps(engine, again) == {}


async def test_nobody_takes_the_job_away_while_a_step_is_written(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    async with engine.connection.transaction():
        await save(engine, attempt)
        assert await other.settle([attempt], states=["ready"]) == {attempt["id"]: "busy"}
    assert await other.settle([attempt], states=["ready"]) == {}


async def test_a_step_that_waits_for_the_rescue_of_its_job_is_refused(
    engine: Engine, other: Engine
) -> None:
    """Written after the lock, it would be there for nobody or against the newer attempt's."""
    attempt = await engine.attempt()
    transaction = other.connection.transaction()
    await transaction.start()
    await other.settle([attempt], states=["ready"])
    with pytest.raises(asyncpg.LockNotAvailableError):
        await save(engine, attempt)
    await transaction.commit()
    with pytest.raises(asyncpg.PostgresError) as refused:
        await save(engine, attempt)
    assert refused.value.sqlstate == STALE


async def test_the_first_result_of_a_step_stays_and_the_last_of_a_poll(engine: Engine) -> None:
    attempt = await engine.attempt()
    engine.now = NOON
    assert await save(engine, attempt, result="1") == 0
    assert await save(engine, attempt, kind="poll", name="ready", result="1") == 0
    engine.now = NOON.replace(minute=1)
    assert await save(engine, attempt, result="2") == 60
    assert await save(engine, attempt, kind="poll", name="ready", result="2") == 60
    assert await steps(engine, attempt) == {"fetch": "1", "ready": "2"}


async def test_steps_survive_a_failed_job_and_its_retry(engine: Engine) -> None:
    attempt = await engine.attempt()
    await save(engine, attempt)
    await engine.settle([attempt], states=["failed"], reasons=["discarded"])
    assert dict((await engine.call("sweep_steps_v1"))[0]) == {"swept": 0, "upto": attempt["id"]}
    await engine.call("retry_v1", ids=[attempt["id"]])
    [again] = await engine.claim(await engine.lease())
    assert await steps(engine, again) == {"fetch": "1"}


async def test_steps_are_swept_when_their_job_is_gone(engine: Engine) -> None:
    gone, stays = await engine.attempt(), await engine.attempt()
    for attempt in (gone, stays):
        await save(engine, attempt, "one")
        await save(engine, attempt, "two")
    await engine.connection.execute("DELETE FROM penstock.job WHERE id = $1", gone["id"])
    [first] = await engine.call("sweep_steps_v1", after=0, limit=2)
    assert dict(first) == {"swept": 2, "upto": gone["id"]}
    [second] = await engine.call("sweep_steps_v1", after=gone["id"], limit=2)
    assert dict(second) == {"swept": 0, "upto": stays["id"]}
    [end] = await engine.call("sweep_steps_v1", after=stays["id"])
    assert end["upto"] is None
    assert len(await steps(engine, stays)) == 2


# Sleeps


async def sleep(engine: Engine, attempt: Any, **given: Any) -> float:
    given = {"name": "1", "until": None, "seconds": 60.0, **given}
    return float(
        await engine.value(
            "sleep_v1", job=attempt["id"], token=attempt["token"], now=engine.now, **given
        )
    )


async def test_sleep_begins_once_and_ends_by_the_database_clock(engine: Engine) -> None:
    attempt = await engine.attempt()
    engine.now = NOON
    assert await sleep(engine, attempt) == 60
    assert await sleep(engine, attempt, name="2", until=NOON.replace(minute=5), seconds=None) == 300
    engine.now = NOON.replace(second=59)
    assert await sleep(engine, attempt, seconds=1000.0) == 1
    engine.now = NOON.replace(minute=2)
    assert await sleep(engine, attempt) == -60


# The cache


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


async def share(engine: Engine, attempt: Any, number: int, result: str = "1", ttl: float = 3600.0):  # type: ignore[no-untyped-def]
    await engine.call(
        "share_step_v1",
        job=attempt["id"],
        token=attempt["token"],
        name=f"step {number}",
        result=result,
        key=key(number),
        ttl=ttl,
        now=engine.now,
    )


async def recall(engine: Engine, attempt: Any, number: int) -> Any:
    return await engine.value(
        "recall_step_v1",
        job=attempt["id"],
        token=attempt["token"],
        name=f"step {number}",
        key=key(number),
        now=engine.now,
    )


async def used(engine: Engine) -> list[Any]:
    rows = await engine.connection.fetch("SELECT used_at FROM penstock.step_cache ORDER BY key")
    return [row["used_at"] for row in rows]


async def test_a_shared_result_becomes_a_step_of_the_job_that_finds_it(engine: Engine) -> None:
    first, second, foreign = [
        await engine.attempt(tenants=tenant) for tenant in ("acme", "acme", "globex")
    ]
    await share(engine, first, 1, '{"a": 1}')
    await share(engine, second, 1, '{"a": 2}')
    third = await engine.attempt(tenants="acme")
    assert await recall(engine, third, 1) == '{"a": 1}'
    assert await steps(engine, third) == {"step 1": '{"a": 1}'}
    assert await steps(engine, second) == {"step 1": '{"a": 2}'}
    assert await recall(engine, foreign, 1) is None
    assert await recall(engine, third, 2) is None


async def test_an_old_token_shares_and_finds_nothing(engine: Engine) -> None:
    attempt = await engine.attempt()
    await engine.settle([attempt])
    for call in (share(engine, attempt, 1), recall(engine, attempt, 1)):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await call
        assert refused.value.sqlstate == STALE
    assert await used(engine) == []


async def test_a_use_is_noted_once_an_hour(engine: Engine) -> None:
    attempt = await engine.attempt()
    engine.now = NOON
    await share(engine, attempt, 1, ttl=86_400.0)
    for hour, minute, noted in [(12, 59, 12), (13, 1, 13), (13, 59, 13)]:
        engine.now = NOON.replace(hour=hour, minute=minute)
        assert await recall(engine, attempt, 1) == "1"
        assert [moment.hour for moment in await used(engine)] == [noted]


async def test_cache_sweep_drops_expired_then_least_recently_used(engine: Engine) -> None:
    attempt = await engine.attempt()
    for number in range(5):
        engine.now = NOON.replace(minute=number)
        await share(engine, attempt, number, '"12345678"', ttl=60.0 if number == 2 else 3600.0)
    engine.now = NOON.replace(minute=10)
    [swept] = await engine.call("sweep_cache_v1", bytes=25, now=engine.now)
    assert dict(swept) == {"expired": 1, "evicted": 2, "excess": 0}
    assert [moment.minute for moment in await used(engine)] == [3, 4]
    [swept] = await engine.call("sweep_cache_v1", bytes=25, now=engine.now)
    assert dict(swept) == {"expired": 0, "evicted": 0, "excess": 0}


async def test_how_much_is_too_much_is_added_up_once_for_many_helpings(engine: Engine) -> None:
    attempt = await engine.attempt()
    for number in range(5):
        await share(engine, attempt, number, '"12345678"')
    [first] = await engine.call("sweep_cache_v1", bytes=25, limit=2)
    assert dict(first) == {"expired": 0, "evicted": 2, "excess": 5}
    [second] = await engine.call("sweep_cache_v1", bytes=25, limit=2, excess=first["excess"])
    assert dict(second) == {"expired": 0, "evicted": 1, "excess": 0}
    [third] = await engine.call("sweep_cache_v1", bytes=1, limit=2, excess=0)
    assert third["evicted"] == 0
