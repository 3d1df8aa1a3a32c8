"""Jobs enqueued inside a caller's transaction, whatever library began it."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from penstock import Penstock, Unique
from penstock.errors import IdempotencyMismatch, JobNotFound
from tests.drivers.callers import Caller, few
from tests.fixtures.database import Database
from tests.fixtures.notifications import hearing
from tests.fixtures.worker import worker_of


async def test_a_job_is_gone_with_the_transaction_that_was_rolled_back(
    app: Penstock, caller: Caller, greet
) -> None:
    job = await caller.enqueue(greet, "Ada", commit=False)
    with pytest.raises(JobNotFound):
        await app.get(job)


async def test_a_commit_makes_the_job_visible_and_wakes_the_workers(
    app: Penstock, caller: Caller, greet
) -> None:
    async with worker_of(app, rescan=3600, poll=3600):
        job = await caller.enqueue(greet, "Ada")
        assert await app.wait(job, timeout=30) == "Hello, Ada"


async def test_many_jobs_are_stored_in_order_with_all_their_options(
    app: Penstock, caller: Caller, greet
) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    requests = [
        greet.options(tenant="acme", tags=("a", "b"), timeout=5, max_attempts=9).prepare("one"),
        greet.options(delay=60, meta={"n": 1}, idempotency_key="k", priority=7).prepare("two"),
        greet.options(run_at=due, subject="s:1", deadline=due, timeout=1.5).prepare("100 % three"),
    ]
    stored = await caller.transact(lambda jobs: jobs.enqueue_many(requests))
    one, two, three = [await app.get(job) for job in stored]
    assert [one.args, two.args, three.args] == [
        {"name": "one"},
        {"name": "two"},
        {"name": "100 % three"},
    ]
    assert (one.tenant, one.tags, one.timeout, one.max_attempts) == ("acme", ("a", "b"), 5, 9)
    assert (two.state, two.meta, two.priority) == ("scheduled", {"n": 1}, 7)
    assert (three.run_at, three.subject, three.deadline, three.timeout) == (due, "s:1", due, 1.5)


@few
async def test_a_unique_job_is_the_one_that_is_there(app: Penstock, caller: Caller, greet) -> None:
    rule = Unique(key="greet:{name}", on_conflict="replace")
    requests = [greet.options(unique=rule).prepare(name) for name in ("Ada", "Bo", "Ada")]
    first = await caller.enqueue(greet.options(unique=rule, delay=60), "Ada")
    stored = await caller.transact(lambda jobs: jobs.enqueue_many(requests))
    assert [(job.id == first.id, job.duplicate) for job in stored] == [
        (True, True),
        (False, False),
        (True, True),
    ]
    assert (await app.get(first)).state == "ready"


@few
async def test_a_thousand_jobs_go_in_one_statement(app: Penstock, caller: Caller, greet) -> None:
    requests = [greet.prepare(str(number)) for number in range(1000)]
    stored = await caller.transact(lambda jobs: jobs.enqueue_many(requests))
    assert len({job.id for job in stored}) == 1000
    assert (await app.get(stored[-1])).args == {"name": "999"}


async def test_a_transaction_sees_its_own_jobs_and_changes_them(
    app: Penstock, caller: Caller, greet
) -> None:
    job = await caller.enqueue(greet.options(tags=("x",)), "Ada")
    found = await caller.transact(lambda jobs: jobs.get(job))
    assert (found.args, found.tags, found.meta, found.errors) == ({"name": "Ada"}, ("x",), {}, ())
    page = await caller.transact(lambda jobs: jobs.list(state="ready", tag="x", limit=5))
    assert [each.id for each in page.jobs] == [job.id]
    states = await caller.transact(lambda jobs: jobs.states([job]))
    assert states[job.id].state == "ready"
    assert await caller.transact(lambda jobs: jobs.cancel(job), commit=False)
    assert (await app.get(job)).state == "ready"
    assert await caller.transact(lambda jobs: jobs.cancel(job))
    assert (await app.get(job)).state == "cancelled"
    await caller.transact(lambda jobs: jobs.delete(job))
    assert await app.find(job) is None


@few
async def test_a_queue_can_be_paused_and_resumed(app: Penstock, caller: Caller) -> None:
    await caller.transact(lambda jobs: jobs.pause("mail"))
    assert await app.paused() == ["mail"]
    assert await caller.transact(lambda jobs: jobs.paused()) == ["mail"]
    await caller.transact(lambda jobs: jobs.resume("mail"))
    assert await app.paused() == []


@few
async def test_errors_come_in_words_of_the_domain(caller: Caller, greet) -> None:
    keyed = greet.options(idempotency_key="order-1")
    first = await caller.enqueue(keyed, "Ada")
    assert (await caller.enqueue(keyed, "Ada")).duplicate
    with pytest.raises(IdempotencyMismatch) as told:
        await caller.enqueue(keyed, "Bob")
    assert (told.value.key, told.value.job_id) == ("order-1", first.id)
    with pytest.raises(JobNotFound):
        await caller.transact(lambda jobs: jobs.cancel("999999"))


@few
async def test_one_transaction_sends_one_notification(
    app: Penstock, caller: Caller, greet, database
) -> None:
    def twice(jobs):
        return jobs.enqueue_many([greet.prepare("a"), greet.prepare("b")])

    async with hearing(database) as heard:
        await caller.transact(twice)
        assert len(await heard.all()) == 1


def test_psycopg_s_pipeline_waits_for_the_job_and_goes_on(
    app: Penstock, database: Database, greet
) -> None:
    with psycopg.connect(database.url) as connection:
        with connection.pipeline():
            before = connection.execute("SELECT 1")
            job = app.sync.inside(connection).enqueue(greet, "Ada")
            app.sync.inside(connection).pause("mail")
            after = connection.execute("SELECT 2")
            assert app.sync.inside(connection).get(job).state == "ready"
        assert (before.fetchone(), after.fetchone()) == ((1,), (2,))
        connection.rollback()
        with pytest.raises(JobNotFound):
            app.sync.inside(connection).get(job)


async def test_psycopg_s_async_pipeline_does_so_too(
    app: Penstock, database: Database, greet
) -> None:
    async with await psycopg.AsyncConnection.connect(database.url) as connection:
        async with connection.pipeline():
            before = await connection.execute("SELECT 1")
            job = await app.inside(connection).enqueue(greet, "Ada")
            assert (await app.inside(connection).get(job)).state == "ready"
        assert await before.fetchone() == (1,)
    assert (await app.get(job)).state == "ready"


def test_a_pipeline_hears_what_was_refused(app: Penstock, database: Database, greet) -> None:
    with psycopg.connect(database.url) as connection, connection.pipeline():
        jobs = app.sync.inside(connection)
        jobs.enqueue(greet.options(idempotency_key="k"), "Ada")
        with pytest.raises(IdempotencyMismatch):
            jobs.enqueue(greet.options(idempotency_key="k"), "Bob")
        connection.rollback()
