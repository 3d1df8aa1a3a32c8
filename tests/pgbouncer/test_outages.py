"""PgBouncer loses its servers, or we lose PgBouncer; the worker goes on."""

import asyncio
from collections.abc import Awaitable, Callable

from penstock import Penstock
from tests.fixtures.database import Database, connected
from tests.fixtures.pgbouncer import PgBouncer
from tests.fixtures.worker import worker_of

Cut = Callable[[], Awaitable[None]]

JOBS = 300
CUT_SERVERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def every_job_runs_in_spite_of(app: Penstock, cut: Cut) -> None:
    """Cut a worker's connections again and again while it works."""
    ran: list[int] = []
    begun = asyncio.Semaphore(0)

    @app.task
    async def note(number: int) -> None:
        ran.append(number)
        begun.release()
        await asyncio.sleep(0.01)

    jobs = await app.enqueue_many(note.prepare(number) for number in range(JOBS))
    async with worker_of(app, {"default": 10}, lease=60, heartbeat=1, claim_most=20):
        for _ in range(5):
            for _ in range(JOBS // 6):
                await begun.acquire()
            await cut()
        for job in jobs:
            await app.wait(job, timeout=60)
    assert sorted(ran) == list(range(JOBS))


async def test_a_worker_survives_the_loss_of_all_server_connections(
    app: Penstock, database: Database
) -> None:
    async with connected(database.admin_url) as admin:

        async def cut() -> None:
            await admin.execute(CUT_SERVERS)

        await every_job_runs_in_spite_of(app, cut)


async def test_worker_survives_losing_all_connections_to_pgbouncer(
    app: Penstock, database: Database, bouncer: PgBouncer
) -> None:
    async def cut() -> None:
        # Everybody is thrown out, and nobody served until RESUME.
        await bouncer.tell(f"KILL {database.name}")
        await bouncer.tell(f"RESUME {database.name}")

    await every_job_runs_in_spite_of(app, cut)


async def test_a_pause_of_pgbouncer_is_waited_out(
    app: Penstock, database: Database, bouncer: PgBouncer
) -> None:
    """As during a switch-over: PgBouncer keeps its clients waiting, and then serves them."""

    @app.task
    async def note() -> str:
        return "done"

    async with worker_of(app, lease=60, heartbeat=1):
        await bouncer.tell(f"PAUSE {database.name}")
        waiting = asyncio.create_task(app.enqueue(note))
        done, _ = await asyncio.wait([waiting], timeout=0.5)
        assert not done
        await bouncer.tell(f"RESUME {database.name}")
        assert await app.wait(await waiting, timeout=30) == "done"
