"""A worker's lease: kept while it lives, given up before somebody else would take over."""

import asyncio
import io
import sys
import threading
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from penstock import Context, Penstock, StartTimeout
from penstock.telemetry import LeaseLapsed, LeaseTaken, LoopStalled
from tests.fixtures.database import Database
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import (
    WorkerThread,
    change_liveness,
    clock_of_heartbeats,
    gathered,
    lease_of,
    lose_lease,
    next_heartbeat,
    pool_of,
    reaches,
    worker_of,
    worker_state,
)


async def expiry(connection: asyncpg.Connection, lease: int | None) -> datetime | None:
    return await connection.fetchval("SELECT expires_at FROM penstock.lease WHERE id = $1", lease)


async def renewed(connection: asyncpg.Connection, lease: int | None, times: int) -> None:
    """Wait until a lease has been renewed so many times from now on."""
    ends = {await expiry(connection, lease)}

    async def is_renewed() -> bool:
        ends.add(await expiry(connection, lease))
        assert None not in ends, "the lease is gone"
        return len(ends) > times

    await until(is_renewed, what=f"{times} renewals")


async def run_out(connection: asyncpg.Connection, lease: int | None) -> None:
    """Let a lease end that nobody renews any more."""
    await connection.execute(
        "UPDATE penstock.lease SET expires_at = clock_timestamp() WHERE id = $1", lease
    )


async def test_a_lease_is_renewed_while_the_worker_lives(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    worker = worker_of(app, heartbeat=0.1)
    async with worker:
        lease = worker_state(worker).lease
        await renewed(connection, lease, 1)
    assert await expiry(connection, lease) is None


async def test_a_lease_tells_people_what_the_worker_is(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    @app.task(name="note")
    async def note() -> None: ...

    async with worker_of(app, {"mail": 7}, name="worker-1"):
        row = await connection.fetchrow(
            "SELECT worker, info->'queues'->>'mail' AS slots, info->'tasks'->>0 AS task "
            "FROM penstock.lease"
        )
    assert dict(row) == {"worker": "worker-1", "slots": "7", "task": "note"}


async def test_a_pool_that_is_used_up_does_not_cost_the_lease(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    go_on = asyncio.Event()

    @app.task
    async def slow(ctx: Context) -> int:
        await go_on.wait()
        return ctx.attempt

    worker = worker_of(app, heartbeat=0.1)
    async with worker:
        enqueued = await app.enqueue(slow)
        await reaches(app, enqueued, "running")
        lease = worker_state(worker).lease
        pool = pool_of(worker)
        held = [await pool.acquire() for _ in range(pool.get_max_size())]
        try:
            await renewed(connection, lease, 5)
        finally:
            for each in held:
                await pool.release(each)
        go_on.set()
        assert await app.wait(enqueued, timeout=30) == 1


async def test_blocked_loop_keeps_its_lease_and_its_job(
    app: Penstock, database: Database, connection: asyncpg.Connection
) -> None:
    stalls: list[LoopStalled] = []
    blocks, go_on = threading.Event(), threading.Event()

    def register(far: Penstock) -> None:
        far.events.subscribe(LoopStalled, stalls.append)

        @far.task(name="block")
        async def block(ctx: Context) -> int:
            blocks.set()
            go_on.wait(60)
            return ctx.attempt

    @app.task(name="block")
    async def block() -> int: ...

    with WorkerThread(database.url, register, heartbeat=0.1, stall_warning=0.2) as blocked:
        lease = lease_of(blocked)
        enqueued = await app.enqueue(block)
        try:
            await until(blocks.is_set, what="the handler to block")
            await renewed(connection, lease, 5)
            await until(lambda: [stall for stall in stalls if stall.task], what="the warning")
        finally:
            go_on.set()
        assert await app.wait(enqueued, timeout=30) == 1
    [stall] = [stall for stall in stalls if stall.task == "block"]
    assert stall.job_id == enqueued.id
    assert stall.seconds >= 0.2


async def test_loop_blocked_for_good_loses_its_lease_and_jobs(
    app: Penstock,
    database: Database,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They run elsewhere; the blocked worker, once free, works on under a new lease."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())  # As under a server that took it away.
    blocks, release = threading.Event(), threading.Event()
    far_events: list[object] = []

    def register(far: Penstock) -> None:
        for kind in (LeaseLapsed, LeaseTaken):
            far.events.subscribe(kind, far_events.append)

        @far.task(name="block")
        async def block() -> str:
            blocks.set()
            release.wait(60)
            return "the blocked one"

        @far.task(name="after", queue="far")
        async def after() -> str:
            return "goes on"

    @app.task(name="block")
    async def block() -> str:
        return "the other one"

    @app.task(name="after", queue="far")
    async def after() -> str: ...

    with WorkerThread(database.url, register, queues=["default", "far"], heartbeat=0.1) as blocked:
        enqueued = await app.enqueue(block)
        try:
            await until(blocks.is_set, what="the handler to block")
            # Only now: a machine that stands still is no handler that blocks.
            change_liveness(blocked, stall_warning=0.1, stall_limit=0.5)
            await until(lambda: "the lease is given up" in caplog.text, what="it to be noticed")
            await run_out(connection, lease_of(blocked))
            async with worker_of(app, rescue=0.05):
                assert await app.wait(enqueued, timeout=30) == "the other one"
        finally:
            release.set()
        assert await app.wait(await app.enqueue(after), timeout=30) == "goes on"
    job = await app.get(enqueued)
    assert (job.result, job.losses, job.attempt) == ("the other one", 0, 2)
    assert [type(event) for event in far_events] == [LeaseTaken, LeaseLapsed, LeaseTaken]


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM penstock.lease",
        "UPDATE penstock.lease SET expires_at = clock_timestamp() - interval '1 s'",
    ],
)
async def test_worker_without_lease_stops_its_jobs_and_takes_a_new_one(
    app: Penstock, connection: asyncpg.Connection, harm: str
) -> None:
    began, stopped = asyncio.Event(), asyncio.Event()
    lapsed, taken = gathered(app, LeaseLapsed), gathered(app, LeaseTaken)

    @app.task
    async def slow(ctx: Context) -> int:
        if ctx.attempt == 1:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
        return ctx.attempt

    worker = worker_of(app, heartbeat=0.1)
    async with worker:
        enqueued = await app.enqueue(slow)
        await began.wait()
        first = worker_state(worker).lease
        await connection.execute(harm)
        await asyncio.wait_for(stopped.wait(), 30)
        assert await app.wait(enqueued, timeout=30) == 2
        assert worker_state(worker).lease != first
    assert [event.running for event in lapsed] == [1]
    assert len(taken) == 2
    assert (await app.get(enqueued)).attempt == 2


async def test_a_claim_that_finds_its_lease_gone_takes_a_new_one(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """Long before the next heartbeat."""

    @app.task
    async def note() -> str:
        return "done"

    async with worker_of(app, heartbeat=60, lease=600):
        await connection.execute("DELETE FROM penstock.lease")
        assert await app.wait(await app.enqueue(note), timeout=30) == "done"


async def test_jobs_claimed_under_a_lost_lease_do_not_run(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    """They belong to a lease that nobody renews: another attempt will run them."""
    attempts = []
    claim = app.store.claim

    @app.task
    async def note(ctx: Context) -> int:
        attempts.append(ctx.attempt)
        return ctx.attempt

    worker = worker_of(app)

    async def interrupted(*args: Any) -> list[Any]:
        claimed = await claim(*args)
        if claimed and not attempts and worker_state(worker).lease == first:
            lose_lease(worker)
            await run_out(connection, first)
        return claimed

    async with worker:
        first = worker_state(worker).lease
        app.store.claim = interrupted
        assert await app.wait(await app.enqueue(note), timeout=30) == 2
    assert attempts == [2]


async def test_claim_under_the_old_lease_does_not_end_the_new_one(app: Penstock) -> None:
    taken = gathered(app, LeaseTaken)
    claim = app.store.claim

    @app.task
    async def note() -> str:
        return "done"

    worker = worker_of(app)

    async def late(on: Any, lease: int, *args: Any) -> list[Any]:
        if len(taken) == 1:
            await app.store.close_lease(on, lease)
            lose_lease(worker, lease)
            await until(lambda: len(taken) == 2, what="a new lease")
        return await claim(on, lease, *args)

    app.store.claim = late
    async with worker:
        assert await app.wait(await app.enqueue(note), timeout=30) == "done"
    assert len(taken) == 2


async def test_a_lease_that_is_given_back_is_not_told_as_lost(
    app: Penstock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = app.store.close_lease

    async def slow(*args: Any) -> int:
        released: int = await close(*args)
        [heartbeat] = (one for one in threading.enumerate() if "heartbeat" in one.name)
        await until(lambda: not heartbeat.is_alive(), what="a beat that finds no lease")
        return released

    monkeypatch.setattr(app.store, "close_lease", slow)
    async with worker_of(app, heartbeat=0.05):
        pass
    assert "lost" not in caplog.text


STALLED = """
import asyncio, sys, threading, time
from dataclasses import replace
from penstock import Liveness, Penstock

app = Penstock(sys.argv[1])

@app.task(name="block")
async def block() -> None:
    # Only now: a machine that stands still is no handler that blocks.
    [beats] = [one for one in threading.enumerate() if "heartbeat" in one.name]
    beats._liveness = replace(beats._liveness, stall_warning=0.1, stall_limit=0.4)
    if sys.argv[2] == "lost":
        beats._lease = 0
    time.sleep(60)

@app.task(name="ends")
async def ends() -> None: ...

async def main() -> None:
    liveness = Liveness(heartbeat=0.1, lease=60, exit_on_stall=True)
    async with app, app.worker(liveness=liveness):
        await app.enqueue_many([ends.prepare(), block.prepare()])
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("lease", ["kept", "lost"])
async def test_process_exits_when_its_loop_is_blocked_for_good(
    database: Database, lease: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STALLED, database.url, lease, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(90):
        _, told = await process.communicate()
    assert process.returncode == 70
    assert b"block (job 2, attempt 1); the lease is given up" in told
    assert b"Jobs whose outcomes are not written when the process ends: 1." in told
    assert b"time.sleep" in told or b"in block" in told


async def test_a_worker_that_cannot_get_a_lease_leaves_nothing_behind(app: Penstock) -> None:
    async def never(*args: object) -> int:
        await asyncio.Event().wait()
        return 0

    app.store.open_lease = never
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(worker_of(app).start(), 0.2)


async def test_a_worker_that_gets_no_lease_in_time_says_why(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    async def refused(*args: object) -> int:
        return int(await connection.fetchval("SELECT 1 / 0"))

    app.store.open_lease = refused
    seconds = 0.2
    while True:
        with pytest.raises(StartTimeout) as caught:
            async with worker_of(app, start_wait=seconds):
                pass
        if not isinstance(caught.value.__cause__, TimeoutError):
            break
        # This machine did not get as far as the lease in that time.
        seconds *= 2
    assert f"no lease within {seconds:g} s: division by zero" in str(caught.value)


async def test_worker_cut_off_stops_its_jobs_before_its_lease_ends(
    proxy: Proxy, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute is let pass for both: what is left of it is long enough for a slow machine."""
    began, stopped = asyncio.Event(), list[datetime]()
    let_pass = clock_of_heartbeats(monkeypatch)

    async with Penstock(proxy.url) as far:

        @far.task
        async def slow(ctx: Context) -> int:
            if ctx.attempt == 1:
                began.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    stopped.append(datetime.now(UTC))
            return ctx.attempt

        worker = worker_of(far, lease=60.0, heartbeat=20.0)
        async with worker:
            enqueued = await far.enqueue(slow)
            await began.wait()
            lease = worker_state(worker).lease
            await next_heartbeat(worker)
            proxy.swallow()
            try:
                let_pass(53.0)
                await connection.execute(
                    "UPDATE penstock.lease SET expires_at = expires_at - interval '53 s'"
                )
                await until(lambda: stopped, what="the job to be stopped")
                end = await expiry(connection, lease)
                assert end is not None
                assert stopped[0] < end
                await run_out(connection, lease)
            finally:
                let_pass(0.0)
                proxy.heal()
            assert await far.wait(enqueued, timeout=30) == 2


async def test_a_frozen_database_is_not_taken_for_a_blocked_event_loop(
    proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with Penstock(proxy.url) as far:
        stalls = gathered(far, LoopStalled)
        async with worker_of(far, heartbeat=2.5, stall_warning=1.5):
            proxy.swallow()
            try:
                silent = "The database does not answer the heartbeat"
                await until(lambda: silent in caplog.text, what="the silence to be told")
            finally:
                proxy.heal()
            answers = "The database answers the heartbeat again"
            await until(lambda: answers in caplog.text, what="a beat")
    assert not stalls
    assert "event loop" not in caplog.text
