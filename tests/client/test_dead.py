"""Dead letters: looked at, brought back, erased."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import asyncpg
import pytest

from penstock import Fixed, Penstock
from penstock.errors import ConfigError, JobNotFound
from penstock.groups.failed import JOBS_PER_CHANGE
from tests.db.engine import Engine
from tests.fixtures.dead import dead
from tests.fixtures.until import until
from tests.fixtures.worker import reaches, worker_of


@pytest.fixture
def broken(app: Penstock):
    @app.task(name="broken", max_attempts=1)
    async def broken(kind: str = "value") -> None:
        raise {"value": ValueError, "key": KeyError}[kind]("never works")

    return broken


async def failed(app: Penstock, *requests) -> list[str]:
    """Jobs that have failed, one after the other."""
    ids = []
    for request in requests:
        [job] = await app.enqueue_many([request])
        await worker_of(app, request.options.queue or "default").drain()
        ids.append(job.id)
    return ids


def ids(jobs: Sequence) -> list[str]:
    return [job.id for job in jobs]


# Look


async def test_dead_letter_has_its_reason_time_and_all_errors(app: Penstock) -> None:
    @app.task(name="flaky", max_attempts=2, retry=Fixed(0.01))
    async def flaky() -> None:
        raise ValueError("no such customer")

    async with worker_of(app):
        job = await app.enqueue(flaky)
        await reaches(app, job, "failed")
    [letter] = (await app.dead_letters()).jobs
    assert (letter.id, letter.reason, letter.attempt) == (job.id, "exhausted", 2)
    assert letter.finished_at is not None
    assert letter.last_error is not None
    assert (letter.last_error.type, letter.last_error.message) == ("ValueError", "no such customer")
    assert [error.attempt for error in letter.errors] == [1, 2]


async def test_dead_letters_are_failed_jobs_latest_first(app: Penstock, broken) -> None:
    @app.task(name="fine")
    async def fine() -> None: ...

    first, second = await failed(app, broken.prepare(), broken.prepare())
    await app.enqueue(fine)
    await worker_of(app).drain()
    cancelled = await app.enqueue(fine)
    await app.cancel(cancelled)
    await app.enqueue(fine)
    assert ids((await app.dead_letters()).jobs) == [second, first]


async def test_dead_letters_are_found_by_what_they_have_in_common(app: Penstock, broken) -> None:
    plain, special = await failed(
        app,
        broken.prepare(),
        broken.options(
            queue="mail", tenant="acme", subject="document:1", tags=["import", "x"]
        ).prepare("key"),
    )
    for which in (
        {"queue": "mail"},
        {"tenant": "acme"},
        {"subject": "document:1"},
        {"tag": "import"},
        {"error": "KeyError"},
        {"task": broken, "queue": "mail", "reason": "exhausted"},
    ):
        assert ids((await app.dead_letters(**which)).jobs) == [special], which
    assert ids((await app.dead_letters(task="broken")).jobs) == [special, plain]
    assert (await app.dead_letters(reason="discarded")).jobs == ()
    assert (await app.dead_letters(batch="7")).jobs == ()
    failed_at = (await app.get(special)).finished_at
    assert ids((await app.dead_letters(since=failed_at)).jobs) == [special]
    assert ids((await app.dead_letters(until=failed_at)).jobs) == [plain]


async def test_next_page_follows_a_job_that_was_deleted(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    all_of_them = await dead(connection, 5)
    # Those of one settle have failed at the same moment.
    await connection.execute("UPDATE penstock.job_history SET finished_at = now() WHERE id % 2 = 0")
    expected = ids((await app.dead_letters()).jobs)
    assert sorted(expected) == sorted(all_of_them)
    seen, after = [], None
    while True:
        page = await app.dead_letters(after=after, limit=2)
        seen += ids(page.jobs)
        after = page.after
        if after is None:
            break
        await app.delete(page.jobs[-1])
    assert seen == expected


async def test_summary_groups_by_task_reason_and_error(
    app: Penstock, broken, connection: asyncpg.Connection
) -> None:
    await dead(connection, 3)
    [last] = await failed(app, broken.prepare("key"))
    summary = await app.dead_summary()
    assert [(each.task, each.reason, each.error, each.number) for each in summary.groups] == [
        ("broken", "exhausted", "ValueError", 3),
        ("broken", "exhausted", "KeyError", 1),
    ]
    assert (summary.groups[1].example, summary.groups[1].message) == (last, "'never works'")
    assert (summary.number, summary.is_exact) == (4, True)
    short = await app.dead_summary(among=2)
    assert (short.number, short.is_exact) == (2, False)
    assert (await app.dead_summary(task="other")).groups == ()


@pytest.mark.parametrize(
    ("name", "which"),
    [
        ("since", {"since": datetime(2026, 1, 1)}),
        ("until", {"until": "yesterday"}),
        ("task", {"task": 7}),
        ("batch", {"batch": "seven"}),
        ("limit", {"limit": 0}),
        ("after", {"after": "42"}),
    ],
)
async def test_a_slip_in_a_filter_is_named(app: Penstock, name: str, which) -> None:
    with pytest.raises(ConfigError) as refused:
        await app.dead_letters(**which)
    assert refused.value.setting == name


async def test_an_unknown_filter_is_no_filter(app: Penstock) -> None:
    with pytest.raises(TypeError, match="no filter tasks"):
        await app.dead_letters(tasks="broken")  # type: ignore[call-arg]


# Redrive


async def test_redriven_job_keeps_its_id_and_errors(app: Penstock, broken) -> None:
    [job] = await failed(app, broken.prepare())
    done = await app.redrive(job)
    assert (done.number, done.left) == (1, {})
    back = await app.get(job)
    assert (back.state, back.failures, back.attempt, len(back.errors)) == ("ready", 0, 1, 1)
    await worker_of(app).drain()
    again = await app.get(job)
    assert (again.state, again.attempt, len(again.errors)) == ("failed", 2, 2)


async def test_a_filter_brings_back_all_that_agree_however_many(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    chosen = await dead(connection, JOBS_PER_CHANGE + 1)
    others = await dead(connection, 2, task="other")
    told = [each.number async for each in app.redriving(task="broken")]
    assert told == [JOBS_PER_CHANGE, JOBS_PER_CHANGE + 1]
    assert await connection.fetchval("SELECT count(*) FROM penstock.job") == len(chosen)
    assert sorted(ids((await app.dead_letters()).jobs)) == sorted(others)
    assert (await app.redrive(task="broken")).number == 0


async def test_a_limit_takes_those_that_have_been_dead_for_longest(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    first, second, third = await dead(connection, 3)
    assert (await app.redrive(task="broken", limit=2)).number == 2
    assert ids((await app.dead_letters()).jobs) == [third]
    assert {(await app.get(job)).state for job in (first, second)} == {"ready"}


async def test_only_what_has_failed_is_redriven(app: Penstock, broken) -> None:
    @app.task(name="fine")
    async def fine() -> None: ...

    done = await app.enqueue(fine)
    await worker_of(app).drain()
    later = await app.enqueue(fine.options(delay=60))
    due = (await app.get(later)).run_at
    answer = await app.redrive(done, later, "999", "nonsense")
    assert answer.number == 0
    assert answer.left == {
        done.id: "completed",
        later.id: "scheduled",
        "999": "missing",
        "nonsense": "missing",
    }
    assert (await app.get(done)).state == "completed"
    assert (await app.get(later)).run_at == due


async def test_redrive_skips_jobs_that_fail_while_it_runs(
    app: Penstock, connection: asyncpg.Connection, broken
) -> None:
    await dead(connection, JOBS_PER_CHANGE)
    numbers = []
    async for done in app.redriving(task="broken"):
        numbers.append(done.number)
        if len(numbers) == 1:
            # They fail again before the next page is asked for, and a new one with them.
            await app.enqueue(broken)
            await worker_of(app, {"default": 100}).drain()
    assert numbers == [JOBS_PER_CHANGE]
    assert await connection.fetchval("SELECT count(*) FROM penstock.job") == 0


async def test_a_job_whose_unique_key_is_held_stays_and_is_told(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    [held] = await dead(connection, 1, unique_key="report")
    [free] = await dead(connection, 1)
    await connection.execute(
        "INSERT INTO penstock.unique_claim (kind, tenant, key, job) "
        "VALUES ('unique', '', 'report', 4711)"
    )
    for rate in (None, "1/s"):
        done = await app.redrive(task="broken", rate=rate)
        assert done.left == {held: "held"}
    assert (await app.get(held)).state == "failed"
    assert (await app.get(free)).state == "ready"


async def test_what_failed_of_a_batch_comes_back_and_is_pending_again(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    batch = await connection.fetchval(
        "INSERT INTO penstock.batch (total, failed) VALUES (2, 2) RETURNING id"
    )
    chosen = await dead(connection, 2, batch=batch)
    [other] = await dead(connection, 1)
    assert sorted(ids((await app.dead_letters(batch=str(batch))).jobs)) == sorted(chosen)
    assert (await app.redrive(batch=str(batch), rate="1/s")).number == 2
    assert ids((await app.dead_letters()).jobs) == [other]
    changed = await connection.fetchrow(
        "SELECT sum(pending), sum(failed) FROM penstock.batch_delta"
    )
    assert tuple(changed) == (2, -2)


async def test_redrive_at_a_rate_spaces_jobs_over_all_pages(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    number = JOBS_PER_CHANGE + 2
    order = await dead(connection, number)
    done = await app.redrive(task="broken", rate="4/s")
    rows = await connection.fetch("SELECT id, state, run_at FROM penstock.job ORDER BY run_at")
    assert [str(row["id"]) for row in rows] == order
    assert {row["state"] for row in rows} == {"scheduled"}
    gaps = [later["run_at"] - row["run_at"] for row, later in pairwise(rows)]
    assert min(gaps) == max(gaps) == timedelta(seconds=0.25)
    assert done.due == rows[-1]["run_at"]


async def test_concurrent_redrives_bring_each_job_back_once(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    number = JOBS_PER_CHANGE + 50
    await dead(connection, number)
    answers = await asyncio.gather(*[app.redrive(task="broken", rate="1/s") for _ in range(4)])
    assert sum(answer.number for answer in answers) == number
    rows = await connection.fetch("SELECT id, state, run_at FROM penstock.job")
    assert {row["state"] for row in rows} == {"scheduled"}
    assert len(rows) == number
    # Each is due when its own redrive said: nobody has made it due at once, or moved it.
    first = min(row["run_at"] for row in rows)
    assert len([row for row in rows if row["run_at"] - first < timedelta(seconds=1)]) <= 4
    assert await connection.fetchval("SELECT count(*) FROM penstock.job_history") == 0


async def test_a_deadline_that_would_pass_before_its_turn_is_dropped(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    first, second = await dead(connection, 2)
    await connection.execute(
        "UPDATE penstock.job_history SET deadline = now() + interval '1 minute'"
    )
    await app.redrive(task="broken", rate="1/hour")
    assert (await app.get(first)).deadline is not None
    assert (await app.get(second)).deadline is None


@pytest.mark.parametrize("call", ["redrive", "purge"])
async def test_without_a_filter_nothing_is_meant(app: Penstock, call: str) -> None:
    for nothing in ({}, {"task": None, "since": None}):
        with pytest.raises(TypeError, match="Pass either jobs"):
            await getattr(app, call)(**nothing)
        with pytest.raises(TypeError, match="Pass either jobs"):
            await getattr(app.for_tenant("acme"), call)(**nothing)
    with pytest.raises(TypeError, match="Pass either jobs"):
        await getattr(app, call)("42", task="broken")


async def test_a_rate_that_is_none_is_refused(app: Penstock) -> None:
    with pytest.raises(ConfigError, match="rate"):
        await app.redrive(task="broken", rate="fast")


# Purge


async def test_a_purge_erases_what_has_failed_and_nothing_else(
    app: Penstock, connection: asyncpg.Connection, broken
) -> None:
    gone = await dead(connection, JOBS_PER_CHANGE + 1)
    [kept] = await dead(connection, 1, tenant="acme")
    waiting = await app.enqueue(broken)
    done = await app.purge(task="broken", tenant="")
    assert (done.number, done.left) == (len(gone), {})
    with pytest.raises(JobNotFound):
        await app.get(gone[0])
    assert (await app.get(kept)).state == "failed"
    answer = await app.purge(kept, waiting, "nonsense")
    assert (answer.number, answer.left) == (1, {waiting.id: "ready", "nonsense": "missing"})


async def test_a_purge_spares_what_was_brought_back_a_moment_before(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    [job] = await dead(connection, 1)
    async with connection.transaction():
        await app.inside(connection).redrive(job)
        purging = asyncio.ensure_future(app.purge(job))
        await until(Engine(connection).keeps_waiting, what="the purge to wait for the redrive")
    assert (await purging).left == {job: "ready"}
    assert (await app.get(job)).state == "ready"


async def test_code_that_does_not_await_has_the_same_calls(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    await dead(connection, 2)

    def work() -> None:
        with Penstock(app.url).sync as jobs:
            assert jobs.dead_summary().number == 2
            assert jobs.redrive(task="broken", limit=1).number == 1
            assert jobs.purge(until=datetime.now(UTC)).number == 1
            assert jobs.dead_letters().jobs == ()

    await asyncio.to_thread(work)
