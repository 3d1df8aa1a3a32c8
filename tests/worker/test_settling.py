"""Outcomes on their way to the database: none is lost, none disturbs another."""

import asyncio
import contextlib
import logging
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from penstock import Context, Fixed, Penstock
from penstock.telemetry import JobFinished, SettleRefused
from penstock.worker.run import outcomes as run_outcomes
from tests.fixtures.database import Database
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import asked, gathered, reaches, worker_of, worker_state


@pytest.fixture
def note(app: Penstock):
    @app.task(name="note")
    async def note(text: str = "") -> str:
        return text

    return note


class Failing:
    """Follows jobs, and fails when their outcomes are written."""

    inside = "tests:nobody"

    def active(self) -> "Failing":
        return self

    def sending(self, requests: Any) -> Any:
        return contextlib.nullcontext(SimpleNamespace(requests=requests, stored=lambda _: None))

    def running(self, _: Any) -> Any:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def concluded(self, _: Any) -> None: ...

    def settled(self) -> None:
        raise RuntimeError("no such luck")


async def test_outcomes_are_written_although_who_follows_jobs_fails(
    app: Penstock, note, caplog: pytest.LogCaptureFixture
) -> None:
    app.trace_with(Failing())
    async with worker_of(app, {"default": 1}):
        jobs = [await app.enqueue(note, str(number)) for number in range(3)]
        assert [await app.wait(job, timeout=30) for job in jobs] == ["0", "1", "2"]
    assert "no such luck" in caplog.text
    assert {(await app.get(job)).attempt for job in jobs} == {1}


async def test_outcome_of_a_lost_job_is_refused_and_counted(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    go_on = asyncio.Event()
    refused = gathered(app, SettleRefused)

    @app.task
    async def slow(ctx: Context) -> int:
        if ctx.attempt == 1:
            await go_on.wait()
        return ctx.attempt

    worker = worker_of(app)
    async with worker:
        enqueued = await app.enqueue(slow)
        await reaches(app, enqueued, "running")
        # As a rescue by a worker that took this one for dead.
        await connection.execute(
            "UPDATE penstock.job SET state = 'ready', lease = NULL, token = NULL"
        )
        assert await app.wait(enqueued, timeout=30) == 2
        go_on.set()
        await until(lambda: refused, what="the refusal")
    assert [(event.job_id, event.attempt, event.answer) for event in refused] == [
        (enqueued.id, 1, "refused")
    ]
    assert worker.tally.refused == 1
    assert (await app.get(enqueued)).result == 2


async def test_progress_stops_an_attempt_that_lost_its_job(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    stopped = asyncio.Event()

    @app.task
    async def slow(ctx: Context) -> int:
        if ctx.attempt == 1:
            try:
                while True:
                    ctx.progress(1, 10)
                    await asyncio.sleep(0.01)
            finally:
                stopped.set()
        return ctx.attempt

    async with worker_of(app):
        enqueued = await app.enqueue(slow)
        await reaches(app, enqueued, "running")
        await connection.execute(
            "UPDATE penstock.job SET state = 'ready', lease = NULL, token = NULL"
        )
        await asyncio.wait_for(stopped.wait(), 30)
        assert await app.wait(enqueued, timeout=30) == 2


async def test_locked_job_settles_later_and_others_at_once(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    go_on = asyncio.Event()

    @app.task
    async def slow() -> str:
        await go_on.wait()
        return "done"

    async with worker_of(app):
        held, *others = await app.enqueue_many(slow.prepare() for _ in range(5))
        await until(lambda: _all_running(connection, 5), what="all to run")
        async with connection.transaction():
            await connection.execute(
                "SELECT FROM penstock.job WHERE id = $1 FOR UPDATE", int(held.id)
            )
            go_on.set()
            for job in others:
                assert await app.wait(job, timeout=30) == "done"
            assert (await app.get(held)).state == "running"
        assert await app.wait(held, timeout=30) == "done"


async def _all_running(connection: asyncpg.Connection, count: int) -> bool:
    running = await connection.fetchval("SELECT count(*) FROM penstock.job WHERE state = 'running'")
    return bool(running == count)


async def test_refused_outcome_does_not_fail_the_others(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    go_on = asyncio.Event()
    await connection.execute(
        "ALTER TABLE penstock.job_history ADD CONSTRAINT no_13 CHECK (result <> '13')"
    )

    @app.task
    async def give(number: int) -> int:
        await go_on.wait()
        return number

    async with worker_of(app):
        jobs = await app.enqueue_many(give.prepare(number) for number in range(20))
        await until(lambda: _all_running(connection, 20), what="all to run")
        go_on.set()
        for number, job in enumerate(jobs):
            if number != 13:
                assert await app.wait(job, timeout=30) == number
        bad = await reaches(app, jobs[13], "failed")
    assert bad.reason == "unsettleable"
    assert "no_13" in bad.errors[-1].message


@pytest.mark.parametrize(
    ("unfit", "kind"),
    [
        pytest.param(13, "DataError", id="cannot be sent"),
        pytest.param('"\\u0000"', "UntranslatableCharacterError", id="cannot be stored"),
    ],
)
async def test_unstorable_outcome_fails_its_own_job_at_once(
    app: Penstock, note, monkeypatch: pytest.MonkeyPatch, unfit: Any, kind: str
) -> None:
    monkeypatch.setattr(
        run_outcomes,
        "encode_result",
        lambda value: unfit if value == "bad" else f'"{value}"',
    )
    async with worker_of(app):
        good, bad, last = [await app.enqueue(note, name) for name in ("good", "bad", "last")]
        job = await reaches(app, bad, "failed")
        assert [await app.wait(each, timeout=30) for each in (good, last)] == ["good", "last"]
    assert (job.reason, job.errors[-1].type, job.losses) == ("unsettleable", kind, 0)


SLOW_ONCE = """
CREATE SEQUENCE public.tries;
CREATE FUNCTION public.trouble() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('public.tries') <= {times} THEN
        RAISE EXCEPTION 'trouble' USING ERRCODE = '{state}';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER trouble BEFORE INSERT ON penstock.job_history
    FOR EACH ROW EXECUTE FUNCTION public.trouble();
"""


# The disk is full, memory or connections are used up, a shutdown, read-only, damage.
OF_THE_SERVER = ["53100", "53200", "53300", "57P01", "25006", "58030"]


@pytest.mark.parametrize("state", ["40P01", "57014", "55P03", "40001", *OF_THE_SERVER])
async def test_an_error_that_passes_is_tried_again(
    app: Penstock, note, connection: asyncpg.Connection, state: str
) -> None:
    await connection.execute(SLOW_ONCE.format(times=2, state=state))
    async with worker_of(app):
        enqueued = await app.enqueue(note, "done")
        assert await app.wait(enqueued, timeout=30) == "done"
    job = await app.get(enqueued)
    assert (job.attempt, job.failures, job.losses) == (1, 0, 0)


@pytest.mark.parametrize("state", OF_THE_SERVER)
async def test_server_shortage_is_a_warning_then_an_error_if_it_lasts(
    app: Penstock,
    note,
    connection: asyncpg.Connection,
    caplog: pytest.LogCaptureFixture,
    state: str,
) -> None:
    """One line each, whatever the number of tries, with the cause and Postgres's code."""

    def told(level: str) -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if record.levelname == level and "trouble" in record.getMessage()
        ]

    await connection.execute(SLOW_ONCE.format(times=10**6, state=state))
    tries = asked(app, "settle")
    # It has lasted after half the lease, or after this.
    async with worker_of(app, unwritten_retry=1, settle_retry_most=0.2):
        enqueued = await app.enqueue(note, "done")
        warnings = await until(lambda: told("WARNING"), what="a warning")
        await until(lambda: told("ERROR"), what="an error")
        tried = len(tries)
        await until(lambda: len(tries) > tried + 1, what="more tries")
        for [line] in (warnings, told("WARNING"), told("ERROR")):
            assert state in line
        drop = "DROP TRIGGER trouble ON penstock.job_history"
        await until(lambda: has_run(connection, drop), what="it to be mended")
        assert await app.wait(enqueued, timeout=60) == "done"
    assert (await app.get(enqueued)).attempt == 1


async def has_run(connection: asyncpg.Connection, statement: str) -> bool:
    """DDL on the history and a settle may wait for each other's locks."""
    try:
        await connection.execute(statement)
    except asyncpg.DeadlockDetectedError:
        return False
    return True


async def test_passing_trouble_never_fails_a_successful_job(
    app: Penstock, note, connection: asyncpg.Connection
) -> None:
    """However often it is met; meanwhile other outcomes are written."""
    await connection.execute(SLOW_ONCE.format(times=12, state="57014"))
    async with worker_of(app, settle_retry=0.001):
        enqueued = await app.enqueue(note, "done")
        assert await app.wait(enqueued, timeout=30) == "done"
        assert await app.wait(await app.enqueue(note, "next"), timeout=30) == "next"
    assert (await app.get(enqueued)).attempt == 1


async def test_a_missing_partition_of_the_history_is_made(
    app: Penstock, note, connection: asyncpg.Connection
) -> None:
    await _drop_partitions(connection)
    async with worker_of(app, partitions=3600):
        await connection.fetchval("SELECT 1")
        await _drop_partitions(connection)
        assert await app.wait(await app.enqueue(note, "done"), timeout=30) == "done"


async def _drop_partitions(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits "
        "WHERE inhparent = 'penstock.job_history'::regclass"
    )
    for row in rows:
        await connection.execute(f"DROP TABLE {row['name']}")


async def test_settle_with_a_lost_reply_is_repeated_and_counts_once(
    proxy: Proxy, database: Database
) -> None:
    async with Penstock(proxy.url) as far:

        @far.task(retry=Fixed(3600))
        async def give(number: int) -> int:
            if number == 2:
                raise ValueError("once")
            return number

        finished = gathered(far, JobFinished)
        worker = worker_of(far)
        async with worker:
            lost = proxy.drop_reply_after("settle_v1")
            good = await far.enqueue(give, 1)
            await lost.wait()
            assert await far.wait(good, timeout=30) == 1
            lost = proxy.drop_reply_after("settle_v1")
            bad = await far.enqueue(give, 2)
            await lost.wait()
            job = await reaches(far, bad, "scheduled")
            await until(lambda: worker.tally.settled == 2, what="both to be counted")
        assert (job.failures, len(job.errors)) == (1, 1)
        assert (worker.tally.completed, worker.tally.retried, worker.tally.refused) == (1, 1, 0)
        assert [event.job_id for event in finished] == [good.id, bad.id]


async def test_outcomes_wait_while_the_database_is_away(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with Penstock(proxy.url) as far:
        go_on = asyncio.Event()

        @far.task
        async def slow(number: int) -> int:
            await go_on.wait()
            return number

        worker = worker_of(far, heartbeat=100, lease=600)
        async with worker:
            jobs = await far.enqueue_many(slow.prepare(number) for number in range(3))
            await until(lambda: len(worker_state(worker).running) == 3, what="all to run")
            with caplog.at_level(logging.WARNING, "penstock"):
                proxy.refuse()
                go_on.set()
                await until(
                    lambda: worker_state(worker).unsettled == 3, what="the outcomes to wait"
                )
                proxy.heal()
                for number, job in enumerate(jobs):
                    assert await far.wait(job, timeout=30) == number


async def test_outcomes_waiting_out_an_outage_are_logged_once(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with Penstock(proxy.url) as far:
        go_on = asyncio.Event()

        @far.task
        async def slow() -> str:
            await go_on.wait()
            return "done"

        def told() -> list[str]:
            texts = [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]
            return [text for text in texts if "not been written" in text]

        worker = worker_of(far, heartbeat=100, lease=600, unwritten_retry=0.5)
        async with worker:
            job = await far.enqueue(slow)
            await until(lambda: worker_state(worker).running, what="it to run")
            proxy.refuse()
            tries = asked(far, "settle")
            go_on.set()
            [line] = await until(told, what="the error")
            tried = len(tries)
            await until(lambda: len(tries) > tried + 1, what="more tries")
            assert told() == [line]
            assert "The outcomes of 1 job" in line
            proxy.heal()
            assert await far.wait(job, timeout=30) == "done"


async def test_settles_commit_durably_and_claims_need_not(
    database: Database, connection: asyncpg.Connection
) -> None:
    await connection.execute(f"ALTER DATABASE {database.name} SET synchronous_commit = local")
    await connection.execute(
        """
        CREATE TABLE public.commits (what text, setting text);
        CREATE FUNCTION public.note_commit() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO public.commits VALUES (TG_ARGV[0], current_setting('synchronous_commit'));
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER claimed AFTER UPDATE ON penstock.job
            DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.state = 'running') EXECUTE FUNCTION public.note_commit('claim');
        CREATE CONSTRAINT TRIGGER settled AFTER INSERT ON penstock.job_history
            DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION public.note_commit('settle');
        CREATE CONSTRAINT TRIGGER retried AFTER UPDATE ON penstock.job
            DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.state = 'scheduled')
            EXECUTE FUNCTION public.note_commit('retry');
        """
    )
    async with Penstock(database.url) as app:

        @app.task(retry=Fixed(0.01))
        async def flaky(ctx: Context) -> None:
            if ctx.attempt == 1:
                raise ValueError

        async with worker_of(app):
            await app.wait(await app.enqueue(flaky), timeout=30)
    rows = await connection.fetch("SELECT DISTINCT what, setting FROM public.commits ORDER BY what")
    assert [(row["what"], row["setting"]) for row in rows] == [
        ("claim", "off"),
        ("retry", "on"),
        ("settle", "on"),
    ]
