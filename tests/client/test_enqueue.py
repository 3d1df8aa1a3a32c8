"""What is enqueued is stored, whole, in order and with all its options."""

import asyncio
import os
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from penstock import Context, Fixed, Penstock
from penstock.errors import DatabaseError, PayloadRefused
from tests.fixtures.worker import worker_of

# One call takes as many as one likes; the long form a hundred thousand.
VERY_MANY = 100_000 if "PENSTOCK_LONG" in os.environ else 20_000
SOON = datetime.now(UTC).replace(microsecond=123456) + timedelta(days=1)


@pytest.fixture
def greet(app: Penstock):
    @app.task(name="greet")
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    return greet


async def test_a_job_is_stored_and_found_by_its_id(app: Penstock, greet) -> None:
    enqueued = await app.enqueue(greet, "Ada")
    job = await app.get(enqueued)
    assert (job.id, job.task, job.state, job.args) == (
        enqueued.id,
        "greet",
        "ready",
        {"name": "Ada"},
    )
    assert (job.queue, job.priority, job.max_attempts, job.timeout) == ("default", 0, 5, 3600.0)
    assert (job.attempt, job.failures, job.losses, job.errors) == (0, 0, 0, ())
    assert not enqueued.duplicate


async def test_ids_are_opaque_strings(app: Penstock, greet) -> None:
    enqueued = await app.enqueue(greet, "Ada")
    assert isinstance(enqueued.id, str)
    assert isinstance((await app.get(enqueued.id)).id, str)


async def test_every_option_reaches_the_row(app: Penstock, greet) -> None:
    task = greet.options(
        queue="mail",
        priority=7,
        run_at=SOON,
        max_attempts=9,
        timeout=12.5,
        retry=Fixed(3),
        tenant="acme",
        subject="document:42",
        requested_by="ada",
        tags=["nightly", "large"],
        meta={"trace": "abc"},
        deadline=SOON + timedelta(hours=1),
        idempotency_key="once",
    )
    job = await app.get(await app.enqueue(task, "Ada"))
    assert (job.queue, job.priority, job.state, job.run_at) == ("mail", 7, "scheduled", SOON)
    assert (job.max_attempts, job.timeout) == (9, 12.5)
    assert job.retry == {"kind": "fixed", "seconds": 3, "jitter": 0.0}
    assert (job.tenant, job.subject, job.requested_by) == ("acme", "document:42", "ada")
    assert (job.tags, job.meta) == (("nightly", "large"), {"trace": "abc"})
    assert job.deadline == SOON + timedelta(hours=1)


async def test_every_option_reaches_the_handler(app: Penstock) -> None:
    seen = []

    @app.task
    async def look(ctx: Context, name: str) -> None:
        seen.append(ctx.job)

    task = look.options(
        priority=7,
        max_attempts=9,
        timeout=12.5,
        retry=Fixed(3),
        tenant="acme",
        subject="document:42",
        requested_by="ada",
        tags=["nightly"],
        meta={"trace": "abc"},
        deadline=SOON,
    )
    await app.enqueue(task, "Ada")
    await worker_of(app).drain(seconds=10)
    [job] = seen
    assert (job.args, job.priority, job.max_attempts, job.timeout) == ({"name": "Ada"}, 7, 9, 12.5)
    assert job.retry == {"kind": "fixed", "seconds": 3, "jitter": 0.0}
    assert (job.tenant, job.subject, job.requested_by) == ("acme", "document:42", "ada")
    assert (job.tags, job.meta, job.deadline) == (("nightly",), {"trace": "abc"}, SOON)
    assert (job.state, job.attempt) == ("running", 1)


async def test_a_delay_makes_the_job_due_that_much_later(app: Penstock, greet) -> None:
    job = await app.get(await app.enqueue(greet.options(delay=90), "Ada"))
    assert job.state == "scheduled"
    assert job.run_at is not None
    assert job.run_at - job.created_at == timedelta(seconds=90)


async def test_a_run_at_in_the_past_is_ready_at_once(app: Penstock, greet) -> None:
    past = datetime.now(UTC) - timedelta(minutes=1)
    job = await app.get(await app.enqueue(greet.options(run_at=past), "Ada"))
    assert (job.state, job.run_at) == ("ready", past)


async def test_a_job_without_a_timeout_has_none(app: Penstock, greet) -> None:
    job = await app.get(await app.enqueue(greet.options(timeout=None), "Ada"))
    assert job.timeout is None


async def test_what_cannot_be_stored_is_refused_before_it_is_sent(app: Penstock, greet) -> None:
    with pytest.raises(PayloadRefused, match="name"):
        await app.enqueue(greet, "a\0b")
    assert (await app.list()).jobs == ()


async def test_many_are_stored_in_the_order_given(app: Penstock, greet) -> None:
    names = [f"n{number}" for number in range(500)]
    enqueued = await app.enqueue_many(greet.prepare(name) for name in names)
    keys = [int(one.id) for one in enqueued]
    assert keys == sorted(keys)
    jobs = [await app.get(enqueued[index]) for index in (0, 1, 250, 499)]
    assert [job.args["name"] for job in jobs] == ["n0", "n1", "n250", "n499"]


async def test_many_may_differ_in_every_option(app: Penstock, greet) -> None:
    requests = [
        greet.options(queue="a", priority=1).prepare("one"),
        greet.prepare("two"),
        greet.options(delay=60, tags=["later"]).prepare("three"),
    ]
    one, two, three = [await app.get(each) for each in await app.enqueue_many(requests)]
    assert (one.queue, one.priority, one.state) == ("a", 1, "ready")
    assert (two.queue, two.priority, two.state) == ("default", 0, "ready")
    assert (three.state, three.tags) == ("scheduled", ("later",))


async def test_none_at_all_is_no_statement(app: Penstock) -> None:
    assert await app.enqueue_many([]) == []


async def test_very_many_are_stored_in_one_call(
    app: Penstock, greet, connection: asyncpg.Connection
) -> None:
    enqueued = await app.enqueue_many(greet.prepare(str(number)) for number in range(VERY_MANY))
    ids = [int(one.id) for one in enqueued]
    assert ids == sorted(set(ids))
    assert await connection.fetchval("SELECT count(*) FROM penstock.job") == VERY_MANY
    last = await connection.fetchval(
        "SELECT args->>'name' FROM penstock.job WHERE id = $1", ids[-1]
    )
    assert last == str(VERY_MANY - 1)
    assert await connection.fetchval("SELECT count(DISTINCT xmin::text) FROM penstock.job") == 1


async def test_many_are_stored_all_or_none(
    app: Penstock, greet, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "ALTER TABLE penstock.job ADD CONSTRAINT nobody_called_bad CHECK (args->>'name' <> 'bad')"
    )
    requests = [greet.prepare(name) for name in ("good", "bad", "good")]
    with pytest.raises(DatabaseError, match="nobody_called_bad") as refused:
        await app.enqueue_many(requests)
    assert refused.value.sqlstate == "23514"
    assert await connection.fetchval("SELECT count(*) FROM penstock.job") == 0


async def test_many_callers_at_once_share_the_pool(app: Penstock, greet) -> None:
    enqueued = await asyncio.gather(*(app.enqueue(greet, str(n)) for n in range(100)))
    assert len({one.id for one in enqueued}) == 100


async def test_what_is_no_request_is_not_enqueued_in_bulk(app: Penstock) -> None:
    @app.task(name="greet")
    async def greet() -> None: ...

    prepared = greet.prepare()
    async with (await app.pool()).acquire() as connection:
        for jobs in (app, app.inside(connection)):
            with pytest.raises(TypeError, match=r"write greet\.prepare\(…\)"):
                await jobs.enqueue_many([prepared, greet])  # type: ignore[list-item]
            with pytest.raises(TypeError, match="This call takes several requests"):
                await jobs.enqueue_many(prepared)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"made with task\.prepare"):
        app.statement(greet)  # type: ignore[arg-type]
    assert (await app.list()).jobs == ()
