"""A database that refuses heartbeats: no job is claimed whose lease would not live."""

import asyncio
import logging

import asyncpg
import pytest

from penstock import Context, Penstock
from penstock.telemetry import LeaseLapsed, LeaseTaken
from tests.fixtures.until import until
from tests.fixtures.worker import (
    asked,
    change_liveness,
    gathered,
    lease_held,
    queue_state,
    reaches,
    worker_of,
    worker_state,
)

REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'leases are closed' USING ERRCODE = '{state}'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON penstock.lease
    FOR EACH ROW EXECUTE FUNCTION public.refuse();
"""
# In one transaction with what follows: no heartbeat comes between.
SOON_OVER = """
LOCK TABLE penstock.lease IN SHARE ROW EXCLUSIVE MODE;
UPDATE penstock.lease SET expires_at = clock_timestamp() + interval '1 s';
"""
ACCEPT = "DROP FUNCTION public.refuse CASCADE"
ALLOWED_TO = "penstock.heartbeat_v1 {} PUBLIC, CURRENT_USER"
REVOKE = f"REVOKE EXECUTE ON FUNCTION {ALLOWED_TO.format('FROM')}"
GRANT = f"GRANT EXECUTE ON FUNCTION {ALLOWED_TO.format('TO')}"

LASTING, PASSING = "P0001", "40001"
SAID = "The database refuses the heartbeat of lease"


def said(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage().startswith(SAID)]


@pytest.mark.parametrize(
    ("harm", "mend", "state"),
    [(REFUSE.format(state=LASTING), ACCEPT, LASTING), (REVOKE, GRANT, "42501")],
    ids=["trigger", "right"],
)
async def test_worker_claims_nothing_while_its_heartbeat_is_refused(
    app: Penstock,
    connection: asyncpg.Connection,
    caplog: pytest.LogCaptureFixture,
    harm: str,
    mend: str,
    state: str,
) -> None:
    """A job that runs goes on: it has until the end of its lease."""
    go_on = asyncio.Event()

    @app.task
    async def slow(ctx: Context) -> int:
        await go_on.wait()
        return ctx.attempt

    @app.task
    async def note(ctx: Context) -> int:
        return ctx.attempt

    worker = worker_of(app)
    beats = asked(app, "heartbeat")
    async with worker:
        running = await app.enqueue(slow)
        await reaches(app, running, "running")
        lease = worker_state(worker).lease
        await connection.execute(harm)
        await until(lambda: said(caplog), what="the refusal to be told")
        waiting = await app.enqueue(note)
        await until(lambda: queue_state(worker).cursors, what="the job to be known")
        beats_before = len(beats)
        await until(lambda: len(beats) > beats_before + 1, what="two more beats")
        assert (await app.get(waiting)).state == "ready"
        assert (await app.get(running)).state == "running"

        await connection.execute(mend)
        assert await app.wait(waiting, timeout=30) == 1
        go_on.set()
        assert await app.wait(running, timeout=30) == 1
        assert worker_state(worker).lease == lease
    [record] = said(caplog)
    assert record.levelno == logging.ERROR
    assert f"({state})" in record.getMessage()
    assert ("in your function public.refuse." in record.getMessage()) == (state == LASTING)
    assert "accepts heartbeats again" in caplog.text


@pytest.mark.parametrize("state", [LASTING, PASSING])
async def test_new_lease_runs_nothing_until_a_heartbeat_proves_it(
    app: Penstock, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture, state: str
) -> None:
    """Whatever the error is: no job is cut off again and again until it fails as lost."""
    lapsed, taken = gathered(app, LeaseLapsed), gathered(app, LeaseTaken)
    go_on = asyncio.Event()

    @app.task
    async def slow(ctx: Context) -> int:
        await go_on.wait()
        return ctx.attempt

    async with worker_of(app, lease=60.0) as worker:
        job = await app.enqueue(slow)
        await reaches(app, job, "running")
        # Only now: a machine that stands still must not take a lease that is renewed.
        await connection.execute(SOON_OVER + REFUSE.format(state=state))
        change_liveness(worker, lease=1.0)
        await reaches(app, job, "ready")
        so_far = len(taken)
        await until(lambda: len(taken) > so_far + 1, what="a lease to begin and to end")
        # It ran nothing, though the job was ready.
        assert [event.running for event in lapsed] == [1, *(0 for _ in lapsed[1:])]
        why = "its last heartbeat failed: leases are closed"
        await until(lambda: why in caplog.text, what="a lease whose last beat was answered")
        brief = await lease_held(worker)
        change_liveness(worker, now=False, lease=60.0)
        await until(lambda: worker_state(worker).lease not in (None, brief), what="a long lease")
        await connection.execute(ACCEPT)
        go_on.set()
        assert await app.wait(job, timeout=30) == 2
    assert (await app.get(job)).losses == 0
    assert len(said(caplog)) == (1 if state == LASTING else 0)
