"""Events: a sender and a job that goes to sleep never both miss each other."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.engine import NOON, Engine

NAME = "approved"


async def send(engine: Engine, payload: str = "1", **given: Any) -> asyncpg.Record:
    [row] = await engine.call(
        "send_event_v1", **{"name": NAME, "payload": payload, "now": engine.now, **given}
    )
    return row


async def wait(engine: Engine, attempt: Any, **given: Any) -> tuple[str, str | None]:
    given = {"step": "approved:1", "name": NAME, "after": 0, "timeout": None, **given}
    [row] = await engine.call(
        "await_event_v1", job=attempt["id"], token=attempt["token"], now=engine.now, **given
    )
    return row["answer"], row["result"]


async def block(engine: Engine, attempt: Any) -> dict[int, str]:
    return await engine.settle([attempt], states=["blocked"], reasons=[f"event:{NAME}"])


async def state(engine: Engine, attempt: Any) -> str:
    sql = "SELECT state FROM penstock.job_all WHERE id = $1"
    return str(await engine.connection.fetchval(sql, attempt["id"]))


async def waits(engine: Engine) -> int:
    return int(await engine.connection.fetchval("SELECT count(*) FROM penstock.event_wait"))


async def blocked(engine: Engine, **given: Any) -> Any:
    """An attempt whose job waits for the event."""
    attempt = await engine.attempt(**given)
    assert await wait(engine, attempt) == ("wait", None)
    await block(engine, attempt)
    assert await state(engine, attempt) == "blocked"
    return attempt


async def again(engine: Engine, attempt: Any) -> Any:
    """The next attempt at the job."""
    claimed = await engine.claim(await engine.lease())
    return next(each for each in claimed if each["id"] == attempt["id"])


async def test_an_event_wakes_all_who_wait_for_it(engine: Engine) -> None:
    first, second = await blocked(engine), await blocked(engine)
    sent = await send(engine, '{"by": "Ada"}')
    assert sent["woken"] == 2
    for attempt in (first, second):
        assert await state(engine, attempt) == "ready"
    for attempt in await engine.claim(await engine.lease()):
        answer, result = await wait(engine, attempt)
        assert (answer, result) == (
            "got",
            f'{{"event": {sent["id"]}, "payload": {{"by": "Ada"}}}}',
        )
    assert await waits(engine) == 0


async def test_an_event_sent_before_the_wait_is_not_lost(engine: Engine) -> None:
    await send(engine)
    attempt = await engine.attempt()
    assert (await wait(engine, attempt))[0] == "got"


async def test_a_second_wait_gets_the_next_newer_event(engine: Engine) -> None:
    first, second = await send(engine, "1"), await send(engine, "2")
    attempt = await engine.attempt()
    assert (await wait(engine, attempt))[1] == f'{{"event": {first["id"]}, "payload": 1}}'
    _, result = await wait(engine, attempt, step="approved:2", after=first["id"])
    assert result == f'{{"event": {second["id"]}, "payload": 2}}'
    answer, _ = await wait(engine, attempt, step="approved:3", after=second["id"])
    assert answer == "wait"


async def test_events_are_for_one_name_and_one_tenant(engine: Engine) -> None:
    attempt = await blocked(engine, tenants="acme")
    assert (await send(engine, tenant="globex"))["woken"] == 0
    assert (await send(engine, tenant="acme", name="rejected"))["woken"] == 0
    assert await state(engine, attempt) == "blocked"
    assert (await send(engine, tenant="acme"))["woken"] == 1


async def test_settle_sees_an_event_sent_between_wait_and_block(engine: Engine) -> None:
    attempt = await engine.attempt()
    await wait(engine, attempt)
    await send(engine)
    await block(engine, attempt)
    assert await state(engine, attempt) == "ready"


async def test_a_sender_that_is_still_open_makes_the_wait_ask_again(
    engine: Engine, other: Engine
) -> None:
    """Send first, wait second: the wait cannot know whether the event will be there."""
    attempt = await engine.attempt()
    async with other.connection.transaction():
        await send(other)
        assert await wait(engine, attempt) == ("busy", None)
    assert (await wait(engine, attempt))[0] == "got"


@pytest.mark.parametrize("ends", ["commit", "rollback"])
async def test_open_sender_keeps_the_job_from_being_blocked(
    engine: Engine, other: Engine, ends: str
) -> None:
    """Wait, send, block: the settle finds the wait held, and lets the job ask again soon."""
    engine.now = other.now = NOON
    attempt = await engine.attempt()
    await wait(engine, attempt)
    transaction = other.connection.transaction()
    await transaction.start()
    await send(other)
    await block(engine, attempt)
    assert await state(engine, attempt) == "scheduled"
    await getattr(transaction, ends)()
    run_at = await engine.connection.fetchval("SELECT run_at FROM penstock.job")
    assert NOON < run_at <= NOON + timedelta(seconds=1)
    await engine.call("retry_v1", ids=[attempt["id"]])
    answer, _ = await wait(engine, await again(engine, attempt))
    assert answer == ("got" if ends == "commit" else "wait")


async def test_event_sent_during_an_open_settle_wakes_the_job(
    engine: Engine, other: Engine
) -> None:
    """Wait, block, send: the sender does not wait for the settle; the leader wakes the job."""
    attempt = await engine.attempt()
    await wait(engine, attempt)
    async with other.connection.transaction():
        await block(other, attempt)
        assert (await send(engine))["woken"] == 0
        assert await engine.value("wake_due_waits_v1") == 0
    assert await state(engine, attempt) == "blocked"
    assert await engine.value("wake_due_waits_v1") == 1
    assert await state(engine, attempt) == "ready"
    untold = "SELECT count(*) FROM penstock.event WHERE NOT told"
    assert await engine.connection.fetchval(untold) == 0


async def test_leader_wakes_jobs_that_a_senders_old_snapshot_missed(
    engine: Engine, other: Engine
) -> None:
    attempt = await engine.attempt()
    transaction = other.connection.transaction(isolation="repeatable_read")
    await transaction.start()
    await other.connection.fetchval("SELECT 1 FROM penstock.job")
    await wait(engine, attempt)
    await block(engine, attempt)
    assert (await send(other))["woken"] == 0
    await transaction.commit()
    assert await state(engine, attempt) == "blocked"
    assert await engine.value("wake_due_waits_v1") == 1
    assert await state(engine, attempt) == "ready"


async def test_however_they_meet_no_job_stays_behind_its_event(
    engine: Engine, other: Engine
) -> None:
    """As they come, side by side: the leader finds nobody blocked whose event is there."""

    async def fall_asleep(attempt: Any, name: str) -> None:
        answer, _ = await wait(engine, attempt, name=name)
        states = {"wait": "blocked", "busy": "scheduled", "got": "completed"}
        await engine.settle([attempt], states=[states[answer]], delays=[1.0])

    met = Counter[str]()
    for round in range(60):
        attempt = await engine.attempt()
        name = f"round {round}"

        async def send_soon(name: str = name, turns: int = round % 6) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await send(other, name=name)

        await asyncio.gather(fall_asleep(attempt, name), send_soon())
        met[await state(engine, attempt)] += 1
        await engine.value("wake_due_waits_v1")
        assert await state(engine, attempt) != "blocked", met


async def test_a_job_that_somebody_holds_is_woken_later(engine: Engine, other: Engine) -> None:
    attempt = await blocked(engine)
    transaction = other.connection.transaction()
    await transaction.start()
    await other.call("cancel_v1", ids=[attempt["id"]])
    assert (await send(engine))["woken"] == 0
    await transaction.rollback()
    assert await engine.value("wake_due_waits_v1") == 1
    assert await state(engine, attempt) == "ready"


async def test_senders_of_one_name_come_one_after_the_other(engine: Engine, other: Engine) -> None:
    """Or a job that has had the later one would never get the earlier one, seen after it."""
    async with other.connection.transaction():
        await send(other)
        await engine.connection.execute("SET lock_timeout = '50ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await send(engine)
        await send(engine, name="rejected")


async def test_a_wait_has_its_time_from_the_first_on(engine: Engine) -> None:
    engine.now = NOON
    attempt = await engine.attempt()
    assert await wait(engine, attempt, timeout=60.0) == ("wait", None)
    await block(engine, attempt)
    engine.now = NOON + timedelta(seconds=59)
    assert await engine.value("wake_due_waits_v1", now=engine.now) == 0
    engine.now = NOON + timedelta(seconds=60)
    assert await engine.value("wake_due_waits_v1", now=engine.now) == 1
    assert await engine.value("wake_due_waits_v1", now=engine.now) == 0
    assert await state(engine, attempt) == "ready"
    next_attempt = await again(engine, attempt)
    answer, result = await wait(engine, next_attempt, timeout=60.0)
    assert (answer, result) == ("timeout", '{"timed_out": true}')
    assert await waits(engine) == 0


async def test_an_event_that_is_there_beats_the_time_that_is_over(engine: Engine) -> None:
    engine.now = NOON
    attempt = await engine.attempt()
    await wait(engine, attempt, timeout=60.0)
    await send(engine)
    engine.now = NOON + timedelta(seconds=61)
    assert (await wait(engine, attempt, timeout=60.0))[0] == "got"


async def test_an_old_token_neither_waits_nor_gets(engine: Engine) -> None:
    attempt = await engine.attempt()
    await engine.settle([attempt], states=["ready"])
    with pytest.raises(asyncpg.PostgresError) as refused:
        await wait(engine, attempt)
    assert refused.value.sqlstate == "PS003"
    assert await waits(engine) == 0
    assert await block(engine, attempt) == {}  # the repeat of a settle that did commit
    assert await state(engine, attempt) == "ready"


async def test_a_job_that_waits_for_nothing_is_not_blocked(engine: Engine) -> None:
    attempt = await engine.attempt()
    await block(engine, attempt)
    assert await state(engine, attempt) == "ready"


async def test_blocked_jobs_settle_among_others(engine: Engine, other: Engine) -> None:
    waiting, ready, done, held = [await engine.attempt() for _ in range(4)]
    await wait(engine, waiting)
    async with other.connection.transaction():
        await other.call("cancel_v1", ids=[held["id"]])
        refused = await engine.settle(
            [waiting, ready, done, held],
            states=["blocked", "scheduled", "completed", "completed"],
            delays=[None, 5.0, None, None],
        )
        assert refused == {held["id"]: "busy"}
    states = [await state(engine, each) for each in (waiting, ready, done)]
    assert states == ["blocked", "scheduled", "completed"]


async def test_a_cancelled_job_leaves_no_wait_behind(engine: Engine) -> None:
    gone, stays = await blocked(engine), await blocked(engine)
    await engine.call("cancel_v1", ids=[gone["id"]])
    assert await waits(engine) == 1
    assert (await send(engine))["woken"] == 1
    assert await state(engine, stays) == "ready"


async def test_a_wait_that_a_sender_held_while_its_job_ended_is_swept(
    engine: Engine, other: Engine
) -> None:
    gone, stays = await blocked(engine), await blocked(engine)
    async with other.connection.transaction():
        await other.connection.execute("SELECT FROM penstock.event_wait FOR UPDATE")
        await engine.call("cancel_v1", ids=[gone["id"]])
    assert await waits(engine) == 2
    [first] = await engine.call("sweep_events_v1", limit=1)
    assert dict(first) == {"events": 0, "waits": 1, "upto": gone["id"]}
    [second] = await engine.call("sweep_events_v1", after=gone["id"], limit=1)
    assert dict(second) == {"events": 0, "waits": 0, "upto": stays["id"]}
    [end] = await engine.call("sweep_events_v1", after=stays["id"])
    assert end["upto"] is None


@pytest.mark.parametrize("while_it", ["is blocked", "is woken", "runs"])
async def test_a_job_that_comes_back_has_its_time_to_wait_anew(
    engine: Engine, while_it: str
) -> None:
    engine.now = NOON
    attempt = await engine.attempt()
    await wait(engine, attempt, timeout=60.0)
    engine.now = NOON + timedelta(seconds=60)
    if while_it != "runs":
        await block(engine, attempt)
    if while_it == "is woken":
        await engine.value("wake_due_waits_v1", now=engine.now)
    await engine.call("cancel_v1", ids=[attempt["id"]], now=engine.now)
    engine.now = NOON + timedelta(hours=2)
    await engine.call("retry_v1", ids=[attempt["id"]], now=engine.now)
    answer, _ = await wait(engine, await again(engine, attempt), timeout=60.0)
    assert answer == "wait"


async def test_a_job_that_is_replaced_has_its_time_to_wait_anew(engine: Engine) -> None:
    engine.now = NOON
    rule = '{"key": "k", "on_conflict": "replace"}'
    attempt = await engine.attempt(uniques=rule)
    await wait(engine, attempt, timeout=60.0)
    await engine.settle([attempt], states=["scheduled"], delays=[600.0])
    engine.now = NOON + timedelta(minutes=5)
    [replaced] = await engine.enqueue(uniques=rule)
    assert replaced == attempt["id"]
    answer, _ = await wait(engine, await again(engine, attempt), timeout=60.0)
    assert answer == "wait"


async def test_a_deleted_job_leaves_no_wait_behind(engine: Engine) -> None:
    attempt = await engine.attempt()
    await wait(engine, attempt)
    await engine.settle([attempt])
    assert await waits(engine) == 1  # it went on without its event
    await engine.call("delete_v1", ids=[attempt["id"]])
    assert await waits(engine) == 0


async def test_the_leader_hears_when_the_next_wait_is_over(engine: Engine) -> None:
    engine.now = NOON

    async def next_in() -> float | None:
        [row] = await engine.call("wake_due_waits_v1", now=engine.now)
        return None if row["next_in"] is None else float(row["next_in"])

    await blocked(engine)
    assert await next_in() is None
    attempt = await engine.attempt()
    await wait(engine, attempt, timeout=60.0)
    await block(engine, attempt)
    assert await next_in() == 60.0
    await send(engine)
    assert await next_in() is None


@pytest.mark.parametrize("over", ["event", "time"])
async def test_jobs_that_somebody_holds_keep_no_others_waiting(
    engine: Engine, other: Engine, over: str
) -> None:
    """The lowest ids are held, more than one helping of them."""
    *held, free, last = [await blocked(engine) for _ in range(5)]
    if over == "time":
        await engine.connection.execute("UPDATE penstock.event_wait SET until = now()")
    hold = "SELECT FROM penstock.job WHERE id = ANY ($1) FOR UPDATE"
    async with other.connection.transaction():
        await other.connection.fetch(hold, [each["id"] for each in [*held, free, last]])
        if over == "event":
            assert (await send(engine))["woken"] == 0
    async with other.connection.transaction():
        await other.connection.fetch(hold, [each["id"] for each in held])
        for woken in (1, 1, 0):
            assert await engine.value("wake_due_waits_v1", limit=1) == woken
    assert [await state(engine, each) for each in (free, last)] == ["ready", "ready"]
    assert await engine.value("wake_due_waits_v1") == 3


async def test_locked_jobs_do_not_delay_later_events(engine: Engine, other: Engine) -> None:
    held = await blocked(engine)
    async with other.connection.transaction():
        await other.connection.fetch("SELECT FROM penstock.job FOR UPDATE")
        early = [await send(engine) for _ in range(3)][-2]
        attempt = await engine.attempt()
        await wait(engine, attempt, name="rejected")
        await block(engine, attempt)
        late = await send(engine, name="rejected")
        await engine.connection.execute(
            "UPDATE penstock.job SET state = 'blocked', ready_at = NULL WHERE id <> $1", held["id"]
        )
        await engine.connection.execute(
            "UPDATE penstock.event_wait SET woken = false; UPDATE penstock.event SET told = false"
        )
        [first] = await engine.call("wake_due_waits_v1", limit=2)
        assert (first["woken"], first["upto"], first["next_in"]) == (0, early["id"], 0.0)
        [second] = await engine.call("wake_due_waits_v1", limit=2, after=first["upto"])
        assert (second["woken"], second["upto"]) == (1, late["id"])
    assert await state(engine, attempt) == "ready"


async def test_a_job_that_waits_for_others_as_well_is_not_woken(engine: Engine) -> None:
    attempt = await blocked(engine)
    await engine.connection.execute("UPDATE penstock.job SET pending = 1")
    await send(engine)
    assert await state(engine, attempt) == "blocked"


async def test_events_are_kept_for_their_time(engine: Engine) -> None:
    engine.now = NOON
    await send(engine, keep=60.0)
    attempt = await engine.attempt()
    engine.now = NOON + timedelta(seconds=60)
    assert (await wait(engine, attempt))[0] == "wait"
    [swept] = await engine.call("sweep_events_v1", now=engine.now)
    assert swept["events"] == 1


async def test_very_many_who_wait_are_woken_in_helpings(engine: Engine) -> None:
    await engine.connection.execute(
        "INSERT INTO penstock.job (task, state)"
        " SELECT 'work', 'blocked' FROM generate_series(1, 1500)"
    )
    await engine.connection.execute(
        "INSERT INTO penstock.event_wait (job, step, tenant, name, after_event)"
        " SELECT id, 'approved:1', '', 'approved', 0 FROM penstock.job"
    )
    assert (await send(engine))["woken"] == 1000
    assert await engine.value("wake_due_waits_v1") == 500
    left = "SELECT count(*) FROM penstock.job WHERE state = 'blocked'"
    assert await engine.connection.fetchval(left) == 0
