"""Outcomes that the database refuses to write: kept, told, and paid for where they are given up."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from penstock import Context, Penstock, Worker
from penstock.errors import NotAllowed
from penstock.worker.settle import settler
from penstock.worker.settle.settler import REFUSED_TO_STOP_AT
from tests.fixtures.database import Database
from tests.fixtures.until import until
from tests.fixtures.worker import (
    asked,
    end_leases,
    leading,
    reaches,
    retries_of_refused,
    worker_of,
    worker_state,
)

REFUSE_ALL = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the history is closed';
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON penstock.job_history
    FOR EACH ROW EXECUTE FUNCTION public.refuse();
"""
# It ends neither as it should nor as unsettleable.
REFUSE_ONE = f"""
{REFUSE_ALL}
DROP TRIGGER refuse ON penstock.job_history;
CREATE TRIGGER refuse BEFORE INSERT ON penstock.job_history
    FOR EACH ROW WHEN (NEW.tags = '{{bad}}' AND NEW.reason IS DISTINCT FROM 'unwritten')
    EXECUTE FUNCTION public.refuse();
"""
REFUSE_COMPLETED = f"""
{REFUSE_ALL}
DROP TRIGGER refuse ON penstock.job_history;
CREATE TRIGGER refuse BEFORE INSERT ON penstock.job_history
    FOR EACH ROW WHEN (NEW.state = 'completed') EXECUTE FUNCTION public.refuse();
"""
REFUSE_ONE_COMPLETED = REFUSE_COMPLETED.replace(
    "NEW.state = 'completed'", "NEW.state = 'completed' AND NEW.tags = '{bad}'"
)
# A constraint is broken, which is none of the job's own row.
REFUSE_ONE_FOR_ITS_AUDIT = "CREATE TABLE public.audit (id int CHECK (id > 0));" + (
    REFUSE_ONE_COMPLETED.replace(
        "RAISE EXCEPTION 'the history is closed';",
        "INSERT INTO public.audit VALUES (0); RETURN NEW;",
    )
)
ALL_SUSPECTS = """
CREATE FUNCTION public.suspect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN NEW.suspect = true; RETURN NEW; END $$;
CREATE TRIGGER suspect BEFORE INSERT ON penstock.job
    FOR EACH ROW EXECUTE FUNCTION public.suspect();
"""
ALLOWED_TO = "penstock.settle_v1 {} PUBLIC, CURRENT_USER"
REVOKE = f"REVOKE EXECUTE ON FUNCTION {ALLOWED_TO.format('FROM')}"
GRANT = f"GRANT EXECUTE ON FUNCTION {ALLOWED_TO.format('TO')}"


class Slow:
    """Jobs that end when they are let go."""

    def __init__(self, app: Penstock) -> None:
        self.runs: list[str] = []
        self.go_on = asyncio.Event()

        @app.task(name="slow")
        async def slow(ctx: Context, name: str) -> str:
            self.runs.append(name)
            await (asyncio.Event() if name == "held" else self.go_on).wait()
            if name == "failing":
                raise ValueError(name)
            return name

        self.task = slow

    async def running(self, app: Penstock, worker: Worker, *names: str) -> list[Any]:
        jobs = [await app.enqueue(self.task.options(tags=[name]), name) for name in names]
        await until(lambda: set(names) <= set(self.runs), what="all to run")
        return jobs


@pytest.fixture
def slow(app: Penstock) -> Slow:
    return Slow(app)


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]


async def unwritten(connection: asyncpg.Connection) -> Any:
    info = await connection.fetchval("SELECT info -> 'unwritten' FROM penstock.lease")
    return json.loads(info)


@pytest.mark.parametrize(
    ("broken", "mended", "why"),
    [
        (REVOKE, GRANT, "permission denied for function settle_v1"),
        (
            "ALTER FUNCTION penstock.settle_v1 RENAME TO settled",
            "ALTER FUNCTION penstock.settled RENAME TO settle_v1",
            "does not exist",
        ),
        (REFUSE_ALL, "DROP TRIGGER refuse ON penstock.job_history", "the history is closed"),
    ],
)
async def test_outcomes_are_kept_until_the_database_writes_them_again(
    app: Penstock,
    slow: Slow,
    connection: asyncpg.Connection,
    errors: Callable[[], list[str]],
    broken: str,
    mended: str,
    why: str,
) -> None:
    worker = worker_of(app, {"default": 9}, reconcile=0.02, unwritten_retry=5)
    async with worker:
        jobs = await slow.running(app, worker, "one", "two", "three")
        await connection.execute(broken)
        slow.go_on.set()
        await until(lambda: worker_state(worker).unwritten, what="the worker to give in")
        later = await app.enqueue(slow.task, "later")
        tries, looks = asked(app, "settle"), asked(app, "release")
        await until(lambda: tries and len(looks) > 3, what="another try, and reconciliations")

        async def all_are_told() -> Any:
            told = await unwritten(connection)
            # A claim that was under way when the worker gave in may have brought the later one.
            return told if told and told["jobs"] >= 3 else None

        told = await until(all_are_told, what="the lease to say so")
        assert why in told["message"]
        await until(lambda: has_run(connection, mended), what="it to be mended")
        for job, name in zip((*jobs, later), ("one", "two", "three", "later"), strict=True):
            assert await app.wait(job, timeout=30) == name
            assert (await app.get(job)).attempt == 1
        assert sorted(slow.runs) == ["later", "one", "three", "two"]
        await until(lambda: is_over(connection), what="the lease to say that it is over")
    [message] = errors()
    assert why in message


async def has_run(connection: asyncpg.Connection, statement: str) -> bool:
    """DDL on the history and a settle may wait for each other's locks."""
    try:
        await connection.execute(statement)
    except asyncpg.DeadlockDetectedError:
        return False
    return True


async def is_over(connection: asyncpg.Connection) -> bool:
    return await unwritten(connection) is None


async def test_log_does_not_claim_that_refused_outcomes_were_written(
    app: Penstock, slow: Slow, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Other workers have taken their jobs back meanwhile."""
    worker = worker_of(app, {"default": 9}, unwritten_retry=3)
    async with worker:
        await slow.running(app, worker, "one", "two", "three")
        # This worker does not run them again, or it would write what came of that.
        await app.pause("default")
        await connection.execute(REFUSE_ALL)
        slow.go_on.set()
        await until(
            lambda: (seen := worker_state(worker)).unsettled == 3 and seen.stops_claiming,
            what="the refusal",
        )
        rescue = "SELECT FROM penstock.rescue_v1(p_now => now() + interval '1 year')"
        await until(lambda: has_run(connection, rescue), what="a rescue")
        drop = "DROP TRIGGER refuse ON penstock.job_history"
        await until(lambda: has_run(connection, drop), what="it to be mended")
        await until(lambda: worker_state(worker).unwritten is None, what="the end to be told")
    assert "was refused: the job is no longer this worker's" in caplog.text
    assert "written again" not in caplog.text
    assert "None of them was written" in caplog.text


async def test_job_with_a_refused_outcome_fails_after_its_losses(
    app: Penstock, slow: Slow, connection: asyncpg.Connection, errors: Callable[[], list[str]]
) -> None:
    """Also where it runs alone, so that only the next job shows that others are written."""
    await connection.execute(REFUSE_ONE)
    slow.go_on.set()
    bad = await app.enqueue(slow.task.options(tags=["bad"]), "bad")
    await connection.execute("UPDATE penstock.job SET max_losses = 2")
    async with worker_of(app, {"default": 2}, unwritten_retry=0.2):
        await until(errors, what="the worker to give in")
        while (job := await app.get(bad)).state != "failed":
            assert await app.wait(await app.enqueue(slow.task, "good"), timeout=30) == "good"
    assert (job.reason, job.losses, slow.runs.count("bad")) == ("unwritten", 2, 2)
    assert {(error.kind, error.type) for error in job.errors} == {("unwritten", "OutcomeUnwritten")}
    assert all("the history is closed" in error.message for error in job.errors)


async def test_each_retry_of_kept_outcomes_runs_one_job_in_vain(
    app: Penstock, slow: Slow, connection: asyncpg.Connection
) -> None:
    await connection.execute(REFUSE_ALL)
    slow.go_on.set()
    await app.enqueue_many(slow.task.prepare(str(number)) for number in range(200))
    async with worker_of(app, {"default": 1}, claim_most=1, unwritten_retry=0.3) as worker:
        await until(lambda: worker_state(worker).stops_claiming, what="the worker to give in")
        in_vain, tries = len(slow.runs), retries_of_refused(worker)
        await until(lambda: len(tries) >= 12, what="some tries")
        # What was claimed when the worker gave in has run, too.
        assert 0 < len(slow.runs) - in_vain <= len(tries) + REFUSED_TO_STOP_AT


@pytest.mark.parametrize("count", [1, 5])
async def test_success_does_not_fail_while_completions_are_refused(
    app: Penstock,
    slow: Slow,
    connection: asyncpg.Connection,
    errors: Callable[[], list[str]],
    count: int,
) -> None:
    worker = worker_of(app, {"default": 9}, unwritten_retry=0.2)
    async with worker:
        jobs = await slow.running(app, worker, *(str(number) for number in range(count)))
        await connection.execute(REFUSE_COMPLETED)
        tries = asked(app, "settle")
        slow.go_on.set()
        await until(lambda: worker_state(worker).unwritten and len(tries) > 9, what="some tries")
        assert worker_state(worker).stops_claiming is (count >= REFUSED_TO_STOP_AT)
        assert all("the history is closed" in message for message in errors())
        assert {(await app.get(job)).state for job in jobs} == {"running"}
        drop = "DROP TRIGGER refuse ON penstock.job_history"
        await until(lambda: has_run(connection, drop), what="it to be mended")
        for number, job in enumerate(jobs):
            assert await app.wait(job, timeout=30) == str(number)
            assert (await app.get(job)).attempt == 1


@pytest.mark.parametrize("broken", [REFUSE_ONE_COMPLETED, REFUSE_ONE_FOR_ITS_AUDIT])
async def test_success_refused_by_a_trigger_counts_a_loss(
    app: Penstock, slow: Slow, connection: asyncpg.Connection, broken: str
) -> None:
    await connection.execute(broken)
    slow.go_on.set()
    bad = await app.enqueue(slow.task.options(tags=["bad"]), "bad")
    # However long it takes to mend it.
    await connection.execute("UPDATE penstock.job SET max_losses = 1000")
    async with worker_of(app, {"default": 2}, unwritten_retry=0.2):
        while not (job := await app.get(bad)).losses and job.state != "failed":
            assert await app.wait(await app.enqueue(slow.task, "good"), timeout=30) == "good"
        drop = "DROP TRIGGER refuse ON penstock.job_history"
        await until(lambda: has_run(connection, drop), what="it to be mended")
        job = await reaches(app, bad, "completed", "failed")
    assert (job.state, job.failures) == ("completed", 0)
    assert {error.kind for error in job.errors} == {"unwritten"}


async def test_one_refused_outcome_does_not_stop_claims(
    app: Penstock, slow: Slow, connection: asyncpg.Connection
) -> None:
    await connection.execute(REFUSE_ONE)
    slow.go_on.set()
    worker = worker_of(app, {"default": 1}, unwritten_retry=3600)
    async with worker:
        bad = await app.enqueue(slow.task.options(tags=["bad"]), "bad")
        await until(lambda: worker_state(worker).unsettled, what="the refusal")
        good = await app.enqueue(slow.task.options(priority=-1), "good")
        assert await app.wait(good, timeout=30) == "good"
        await until(lambda: has_lost(app, bad), what="the refused one to count a loss")


async def has_lost(app: Penstock, job: Any) -> bool:
    return (await app.get(job)).losses > 0


async def test_written_retry_does_not_prove_that_endings_are_writable(
    app: Penstock, slow: Slow, connection: asyncpg.Connection
) -> None:
    """Their rows go into the history, which refuses all."""
    worker = worker_of(app, {"default": 9}, unwritten_retry=2)
    async with worker:
        ended, failing = await slow.running(app, worker, "ended", "failing")
        await connection.execute(REFUSE_ALL)
        slow.go_on.set()
        await until(lambda: worker.tally.retried, what="the retry to be written")
        tries = asked(app, "settle")
        await until(lambda: tries, what="another try")
        drop = "DROP TRIGGER refuse ON penstock.job_history"
        await until(lambda: has_run(connection, drop), what="it to be mended")
        assert await app.wait(ended, timeout=30) == "ended"
    ended = await app.get(ended)
    assert (ended.attempt, ended.losses, slow.runs.count("ended")) == (1, 0, 1)
    assert (await app.get(failing)).losses == 0


async def test_locked_outcome_is_reported_and_blocks_no_other_job(
    app: Penstock,
    slow: Slow,
    database: Database,
    connection: asyncpg.Connection,
    errors: Callable[[], list[str]],
) -> None:
    worker = worker_of(app, {"default": 1}, unwritten_retry=0.2)
    async with worker, database.connect() as other:
        [locked] = await slow.running(app, worker, "locked")
        async with other.transaction():
            await other.execute("SELECT FROM penstock.job FOR UPDATE")
            slow.go_on.set()
            await until(errors, what="the worker to say so")
            told = await until(lambda: unwritten(connection), what="the lease to say so")
            assert (told["ids"], told["is_claiming"]) == ([locked.id], True)
            assert "locked" in told["message"]
            good = await app.enqueue(slow.task, "good")
            assert await app.wait(good, timeout=30) == "good"
        assert await app.wait(locked, timeout=30) == "locked"
        await until(lambda: is_over(connection), what="the lease to say that it is over")
    assert len(errors()) == 1
    assert (await app.get(locked)).attempt == 1


async def test_an_error_that_passes_is_told_if_it_lasts(
    app: Penstock,
    slow: Slow,
    database: Database,
    errors: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settler, "PASSING_TRIES", 1)
    worker = worker_of(app, {"default": 9}, unwritten_retry=0.2)
    async with worker, database.connect() as other:
        jobs = await slow.running(app, worker, "one", "two", "three")
        async with other.transaction():
            await other.execute("LOCK TABLE penstock.job_history IN SHARE MODE")
            slow.go_on.set()
            await until(lambda: worker_state(worker).stops_claiming, what="no more claims")
        for job in jobs:
            await app.wait(job, timeout=30)
            assert (await app.get(job)).attempt == 1
        await until(lambda: not worker_state(worker).stops_claiming, what="claims to go on")
    assert "lock timeout" in errors()[-1]


SLOW_SETTLE = """
CREATE TABLE public.gate ();
INSERT INTO public.gate DEFAULT VALUES;
GRANT SELECT ON public.gate TO PUBLIC;
CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM public.gate) LOOP
        PERFORM pg_sleep(0.05);
    END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER wait BEFORE INSERT ON penstock.job_history
    FOR EACH ROW EXECUTE FUNCTION public.wait();
"""


@asynccontextmanager
async def locked_history(connection: asyncpg.Connection) -> AsyncIterator[str]:
    """Each settle fails with a lock timeout; gives back what is told."""
    async with connection.transaction():
        await connection.execute("LOCK TABLE penstock.job_history IN SHARE MODE")
        yield "lock timeout"


@asynccontextmanager
async def settle_that_lasts(connection: asyncpg.Connection) -> AsyncIterator[str]:
    await connection.execute(SLOW_SETTLE)
    yield "still running"
    await connection.execute("DELETE FROM public.gate")


@pytest.mark.parametrize("held_up", [locked_history, settle_that_lasts])
async def test_slow_outcomes_are_reported_while_they_are_being_written(
    app: Penstock,
    slow: Slow,
    database: Database,
    connection: asyncpg.Connection,
    errors: Callable[[], list[str]],
    held_up: Callable[[asyncpg.Connection], AbstractAsyncContextManager[str]],
) -> None:
    """One line, also where many outcomes are tried in parts for long."""
    names = [str(number) for number in range(20)]
    worker = worker_of(app, {"default": 40}, lease=60, unwritten_retry=1)
    async with worker, database.connect() as other:
        jobs = await slow.running(app, worker, *names)
        async with held_up(other) as why:
            slow.go_on.set()
            told = await until(lambda: unwritten(connection), what="the lease to say so")
            assert why in told["message"]
            assert (told["jobs"], told["is_claiming"]) == (20, False)
            assert sorted(told["ids"]) == sorted(job.id for job in jobs)
            assert worker_state(worker).stops_claiming
        for name, job in zip(names, jobs, strict=True):
            assert await app.wait(job, timeout=60) == name
            assert (await app.get(job)).attempt == 1
        await until(lambda: is_over(connection), what="the lease to say that it is over")
        assert await app.wait(await app.enqueue(slow.task, "later"), timeout=30) == "later"
    [message] = errors()
    assert why in message


async def test_each_unwritten_outcome_counts_once(
    app: Penstock, slow: Slow, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that is put off while others of its batch are still tried."""
    monkeypatch.setattr(settler, "PASSING_TRIES", 1)
    worker = worker_of(app, {"default": 40}, lease=600, unwritten_retry=600)
    async with worker, database.connect() as other:
        jobs = await slow.running(app, worker, *map(str, range(10)))
        async with locked_history(other):
            tries = asked(app, "settle")
            slow.go_on.set()
            await until(lambda: worker_state(worker).unsettled, what="the first outcome")

            def is_counted_once() -> bool:
                seen = worker_state(worker)
                unwritten = seen.unsettled_jobs
                assert len(unwritten) == len(set(unwritten)) == seen.unsettled
                return len(tries) > 50 and len(unwritten) == 10

            await until(is_counted_once, what="many tries")
        for job in jobs:
            await app.wait(job, timeout=30)


async def test_a_drain_ends_although_the_history_stays_locked(
    app: Penstock, slow: Slow, database: Database
) -> None:
    slow.go_on.set()
    await app.enqueue_many(slow.task.prepare(str(number)) for number in range(20))
    async with database.connect() as other, locked_history(other):
        async with asyncio.timeout(60):
            tally = await worker_of(app, {"default": 40}, unwritten_retry=1, leave=1).drain()
    assert (tally.completed, tally.unwritten) == (0, 20)


async def test_a_drain_ends_although_outcomes_cannot_be_written(
    app: Penstock, slow: Slow, connection: asyncpg.Connection
) -> None:
    slow.go_on.set()
    await connection.execute(REFUSE_ALL)
    jobs = [await app.enqueue(slow.task, str(number)) for number in range(5)]
    tally = await worker_of(app, {"default": 9}, unwritten_retry=0.2).drain()
    assert (tally.completed, tally.unwritten) == (0, 5)
    ended = [await app.get(job) for job in jobs]
    assert {(job.state, job.losses, job.reason) for job in ended} == {("ready", 1, "unwritten")}


async def test_drain_goes_on_past_an_outcome_that_cannot_be_written(
    app: Penstock, slow: Slow, connection: asyncpg.Connection
) -> None:
    slow.go_on.set()
    await connection.execute(REFUSE_ONE)
    await app.enqueue_many(slow.task.prepare(str(number)) for number in range(5))
    bad = await app.enqueue(slow.task.options(tags=["bad"], priority=-9), "bad")
    tally = await worker_of(app, {"default": 1}, unwritten_retry=0.2).drain()
    assert (tally.completed, tally.unwritten) == (5, 1)
    bad = await app.get(bad)
    # One for the stop, and one more if it ended together with another.
    assert (bad.state, bad.reason, bad.losses in (1, 2)) == ("ready", "unwritten", True)


async def test_stop_counts_losses_of_unwritten_outcomes_only(
    app: Penstock, slow: Slow, connection: asyncpg.Connection, errors: Callable[[], list[str]]
) -> None:
    worker = worker_of(app, finish=0.01, unwritten_retry=3600)
    async with worker:
        ended, held = await slow.running(app, worker, "ended", "held")
        await connection.execute(REVOKE)
        slow.go_on.set()
        await until(lambda: worker_state(worker).unwritten, what="the worker to give in")
        before = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - before < 20
    ended, held = await app.get(ended), await app.get(held)
    assert (ended.state, ended.losses, ended.reason) == ("ready", 1, "unwritten")
    assert ended.errors[-1].kind == "unwritten"
    assert (held.state, held.losses) == ("ready", 0)
    assert not await connection.fetchval("SELECT count(*) FROM penstock.lease")
    assert "Losses counted: 1." in errors()[-1]


async def test_stop_counts_no_loss_for_a_job_that_never_began(
    app: Penstock, slow: Slow, connection: asyncpg.Connection
) -> None:
    """It is a suspect that could not be marked, and its being put back cannot be written."""
    worker = worker_of(app, unwritten_retry=3600)
    await connection.execute(ALL_SUSPECTS)
    async with worker:
        await connection.execute(f"{REVOKE}; {REVOKE.replace('settle_v1', 'mark_started_v1')}")
        job = await app.enqueue(slow.task, "never begun")
        await until(lambda: worker_state(worker).unwritten, what="the worker to give in")
    found = await app.get(job)
    assert (found.state, found.losses, found.failures) == ("ready", 0, 0)
    assert not slow.runs
    assert not await connection.fetchval("SELECT count(*) FROM penstock.lease")


async def test_stop_keeps_the_lease_if_losses_cannot_be_counted(
    app: Penstock, slow: Slow, connection: asyncpg.Connection, errors: Callable[[], list[str]]
) -> None:
    """It runs out, and the rescue counts them: the worker had told of them."""
    worker = worker_of(app, unwritten_retry=3600)
    async with worker:
        [job] = await slow.running(app, worker, "ended")
        await connection.execute(f"{REVOKE}; {REVOKE.replace('settle_v1', 'mark_outcome_lost_v1')}")
        slow.go_on.set()
        await until(lambda: worker_state(worker).unwritten, what="the worker to give in")
    assert "Their losses could not be counted" in errors()[-1]
    assert (await app.get(job)).state == "running"
    assert await connection.fetchval("SELECT count(*) FROM penstock.lease") == 1
    await end_leases(connection)
    await connection.fetch("SELECT FROM penstock.rescue_v1()")
    found = await app.get(job)
    assert (found.state, found.reason, found.losses) == ("ready", "unwritten", 1)


async def test_hard_exit_reports_unwritten_outcomes_and_counts_losses(
    app: Penstock, slow: Slow, connection: asyncpg.Connection, errors: Callable[[], list[str]]
) -> None:
    worker = worker_of(app, finish=0.01, unwritten_retry=3600)
    async with worker:
        ended, held = await slow.running(app, worker, "ended", "held")
        await connection.execute(REVOKE)
        slow.go_on.set()
        await until(lambda: worker_state(worker).unwritten, what="the worker to give in")
        await asyncio.to_thread(worker.last_words)
        assert "Jobs whose outcomes are not written when the process ends: 1." in errors()[-1]
        ended, held = await app.get(ended), await app.get(held)
        assert (ended.state, ended.losses, ended.reason) == ("ready", 1, "unwritten")
        assert (held.state, held.losses) == ("ready", 0)


async def test_hard_exit_names_uncountable_outcomes_in_the_lease(
    app: Penstock, slow: Slow, connection: asyncpg.Connection
) -> None:
    """Also those that nobody knew to be unwritten before."""
    worker = worker_of(app, unwritten_retry=3600)
    async with worker:
        [job] = await slow.running(app, worker, "ended")
        await connection.execute(REVOKE.replace("settle_v1", "mark_outcome_lost_v1"))
        async with connection.transaction():
            await connection.execute("SELECT FROM penstock.job FOR UPDATE")
            slow.go_on.set()
            await until(lambda: worker_state(worker).unsettled, what="an outcome to wait")
            tries = asked(app, "settle")
            await asyncio.to_thread(worker.last_words)
            # The loop may go on for a while.
            before = len(tries)
            await until(lambda: len(tries) > before + 2, what="more tries")

            async def is_named() -> bool:
                told = await unwritten(connection)
                return bool(told and told["ids"] == [job.id])

            await until(is_named, what="the lease to name it")
        await app.wait(job, timeout=30)


async def test_job_settles_while_another_jobs_partition_is_detached(
    app: Penstock, slow: Slow, connection: asyncpg.Connection, errors: Callable[[], list[str]]
) -> None:
    worker = worker_of(app, {"default": 9}, partitions=3600, unwritten_retry=5)
    async with worker:
        completed, failing = await slow.running(app, worker, "completed", "failing")
        await leading(worker)
        table = await detach_broken(connection)
        slow.go_on.set()
        await until(errors, what="the worker to say so")
        await connection.execute(
            f"UPDATE penstock.job SET max_attempts = 1 WHERE id = {failing.id}"
        )
        await connection.execute(f"ALTER TABLE {table} ADD COLUMN result jsonb")
        assert await app.wait(completed, timeout=30) == "completed"
    [message] = errors()
    assert f"ATTACH PARTITION {table}" in message
    assert sorted(slow.runs) == ["completed", "failing"]


async def test_stop_does_not_wait_for_an_unattachable_partition(
    app: Penstock, slow: Slow, connection: asyncpg.Connection, errors: Callable[[], list[str]]
) -> None:
    """An outcome that is refused is tried once more, and not for as long as leaving may take."""
    worker = worker_of(app, leave=3600)
    async with worker:
        [job] = await slow.running(app, worker, "completed")
        await leading(worker)
        table = await detach_broken(connection)
        slow.go_on.set()
        await until(errors, what="the worker to say so")
        async with asyncio.timeout(60):
            await worker.stop()
    await connection.execute(f"ALTER TABLE {table} ADD COLUMN result jsonb")
    async with worker_of(app):
        assert await app.wait(job, timeout=30) == "completed"


@pytest.mark.parametrize(
    "function", ["heartbeat_v1", "settle_v1", "finish_jobs_v1", "mark_outcome_lost_v1", "rescue_v1"]
)
async def test_a_worker_whose_role_lacks_a_right_does_not_start(
    app: Penstock, connection: asyncpg.Connection, function: str
) -> None:
    role = await connection.fetchval("SELECT current_user")
    await connection.execute(REVOKE.replace("settle_v1", function))
    with pytest.raises(NotAllowed, match=f"EXECUTE on function penstock.{function}") as refused:
        await worker_of(app).start()
    assert refused.value.role == role
    remedy = refused.value.remedy.partition(": ")[2]
    assert remedy.startswith(f"GRANT EXECUTE ON FUNCTION penstock.{function}(")
    await connection.execute(remedy)
    async with worker_of(app):
        pass


async def detach_broken(connection: asyncpg.Connection) -> str:
    """Detach the partition that completed jobs need now, so that it cannot be attached."""
    day = await connection.fetchval(
        "SELECT to_char((now() AT TIME ZONE 'UTC')::date + 8, 'YYYYMMDD')"
    )
    table = f"penstock.job_history_{day}"
    await connection.execute(
        f"ALTER TABLE penstock.job_history DETACH PARTITION {table};"
        f"ALTER TABLE {table} DROP COLUMN result"
    )
    return table
