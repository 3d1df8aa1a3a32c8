"""Which attempts have completed their jobs, whichever day these are kept until."""

import asyncpg
import pytest_asyncio

from penstock.sql import statement
from tests.db.engine import Engine

KEPT = "UPDATE penstock.job_history SET expires_on = expires_on + $2::integer WHERE id = $1"
# The engine's tests have a time of their own; here the server's counts.
USUAL = """
UPDATE penstock.job_history
   SET expires_on = (now() AT TIME ZONE 'UTC')::date + 8 WHERE id = ANY ($1)
"""


async def completed(engine: Engine, *attempts: asyncpg.Record) -> set[int]:
    ids, tokens = [each["id"] for each in attempts], [each["token"] for each in attempts]
    rows = await engine.connection.fetch(statement("find_completed", "penstock"), ids, tokens)
    assert len(rows) == len({row["job"] for row in rows})
    return {row["job"] for row in rows}


@pytest_asyncio.fixture(loop_scope="session")
async def jobs(engine: Engine) -> list[asyncpg.Record]:
    """Four jobs, of which all but the last are settled."""
    await engine.connection.execute("SELECT penstock.ensure_partitions_v1()")
    lease = await engine.lease()
    attempts = [await engine.attempt(lease) for _ in range(4)]
    await engine.settle(attempts[:2])
    await engine.settle([attempts[2]], states="failed", reasons="exhausted")
    await engine.connection.execute(USUAL, [each["id"] for each in attempts])
    return attempts


async def test_those_are_told_that_have_completed_and_no_others(
    engine: Engine, jobs: list[asyncpg.Record]
) -> None:
    first, second, *_ = jobs
    assert await completed(engine, *jobs) == {first["id"], second["id"]}
    assert await completed(engine, first) == {first["id"]}


async def test_completed_jobs_are_found_whatever_their_retention(
    engine: Engine, jobs: list[asyncpg.Record]
) -> None:
    first, second, *_ = jobs
    await engine.connection.execute(KEPT, first["id"], -1)
    assert await completed(engine, *jobs) == {first["id"], second["id"]}
    await engine.connection.execute(KEPT, second["id"], 5)
    for _ in range(8):  # By then the plans are those that stay.
        assert await completed(engine, *jobs) == {first["id"], second["id"]}


async def test_another_attempts_token_has_completed_nothing(
    engine: Engine, jobs: list[asyncpg.Record]
) -> None:
    first, second, *_ = jobs
    rows = await engine.connection.fetch(
        statement("find_completed", "penstock"), [first["id"]], [second["token"]]
    )
    assert rows == []
