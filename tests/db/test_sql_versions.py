"""A rolling deploy: workers of the old version and of the new one share a queue."""

import asyncio
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import asyncpg

from penstock.migrate.runner import newest_functions
from penstock.sql import quote
from tests.db.engine import LONG_AGO, Engine
from tests.fixtures.database import Database

OLD_CLAIM = """
SELECT id, token, task, args
  FROM penstock.claim_v1($1, 'default', '{""}', '{0}', $2, '{0}', NULL, 3)
"""
NEW_CLAIM = """
SELECT id, token, task, args, note
  FROM penstock.claim_v9($1, 'default', '{""}', '{0}', $2, '{0}', 3)
"""

NEXT_MIGRATION = """
ALTER TABLE {schema}.job ADD COLUMN note text;
ALTER TABLE {schema}.job_history ADD COLUMN note text;

CREATE FUNCTION {schema}.claim_v9(
    p_lease bigint, p_queue text, p_lanes text[], p_priorities smallint[],
    p_cursor_times timestamptz[], p_cursor_ids bigint[], p_limit integer
) RETURNS TABLE (id bigint, token uuid, task text, args jsonb, note text)
LANGUAGE sql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
    WITH claimed AS (
        SELECT c.id, c.token, c.task, c.args
          FROM claim_v1(p_lease, p_queue, p_lanes, p_priorities,
                        p_cursor_times, p_cursor_ids, NULL, p_limit) AS c
    )
    SELECT c.id, c.token, c.task, c.args, j.note FROM claimed AS c JOIN job AS j ON j.id = c.id;
$$;

CREATE FUNCTION {schema}.settle_v9(p_ids bigint[], p_tokens uuid[], p_notes text[])
RETURNS TABLE (id bigint, token uuid, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = {schema}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT s.id, s.token, s.answer FROM settle_v1(p_ids, p_tokens) AS s;
    UPDATE job_history AS h SET note = g.note
      FROM unnest(p_ids, p_tokens, p_notes) AS g (id, token, note)
     WHERE h.id = g.id AND h.last_token = g.token;
END
$$;
"""


async def run_old(connection: asyncpg.Connection, lease: int) -> list[int]:
    claimed = await connection.fetch(OLD_CLAIM, lease, [LONG_AGO])
    ids = [row["id"] for row in claimed]
    settle = "SELECT id, token, answer FROM penstock.settle_v1($1, $2)"
    assert await connection.fetch(settle, ids, [row["token"] for row in claimed]) == []
    return ids


async def run_new(connection: asyncpg.Connection, lease: int) -> list[int]:
    claimed = await connection.fetch(NEW_CLAIM, lease, [LONG_AGO])
    ids = [row["id"] for row in claimed]
    settle = "SELECT id, token, answer FROM penstock.settle_v9($1, $2, $3)"
    tokens, notes = [row["token"] for row in claimed], ["new"] * len(ids)
    assert await connection.fetch(settle, ids, tokens, notes) == []
    return ids


async def drain(run: Any, connection: asyncpg.Connection) -> list[int]:
    lease = await Engine(connection).lease()
    done: list[int] = []
    while ids := await run(connection, lease):
        done += ids
    return done


async def test_old_and_new_workers_drain_one_queue_without_losses(
    database: Database, engine: Engine
) -> None:
    async with database.connect() as old, database.connect() as new:
        before = await engine.enqueue(3)
        # The old worker has its statements prepared and planned when the migration comes.
        assert await run_old(old, await Engine(old).lease()) == before
        await engine.connection.execute(NEXT_MIGRATION.format(schema=quote("penstock")))
        # The new one has asked before as well: none has a start over the other.
        assert await drain(run_new, new) == []

        jobs = await engine.enqueue(300)
        # Each has some before one of them could be done with all.
        by_old = await run_old(old, await Engine(old).lease())
        by_new = await run_new(new, await Engine(new).lease())
        rest = await asyncio.gather(drain(run_old, old), drain(run_new, new))
    by_old, by_new = by_old + rest[0], by_new + rest[1]
    assert sorted(by_old + by_new) == jobs
    assert by_old
    assert by_new
    assert await engine.states() == dict.fromkeys(before + jobs, "completed")
    noted = await engine.connection.fetch(
        "SELECT id FROM penstock.job_history WHERE note = 'new' ORDER BY id"
    )
    assert [row["id"] for row in noted] == sorted(by_new)


async def test_old_worker_cannot_settle_a_job_a_new_one_claimed(
    database: Database, engine: Engine
) -> None:
    await engine.connection.execute(NEXT_MIGRATION.format(schema=quote("penstock")))
    frozen = await engine.attempt()
    await engine.connection.execute("UPDATE penstock.lease SET expires_at = now()")
    await engine.call("rescue_v1")
    async with database.connect() as new:
        [claimed] = await new.fetch(NEW_CLAIM, await Engine(new).lease(), [LONG_AGO])
        assert await engine.settle([frozen]) == {frozen["id"]: "refused"}
        settle = "SELECT answer FROM penstock.settle_v9($1, $2, $3)"
        assert await new.fetch(settle, [claimed["id"]], [claimed["token"]], ["new"]) == []
    assert await engine.settle([frozen]) == {frozen["id"]: "refused"}


def test_code_and_docs_call_the_newest_version_of_each_function() -> None:
    package = Path(str(files("penstock")))
    docs = Path(__file__).parents[2] / "docs"
    texts = [*package.rglob("*.py"), *(package / "sql/statements").iterdir(), *docs.glob("*.md")]
    newest = dict(name.rsplit("_v", 1) for name in newest_functions() if "_v" in name)
    asked = [
        (path.name, verb, version)
        for path in texts
        for verb, version in re.findall(r"\b([a-z_]+)_v([0-9]+)\b", path.read_text("utf-8"))
    ]
    assert ("claim.sql", "scan_lanes", newest["scan_lanes"]) in asked
    assert [each for each in asked if int(each[2]) < int(newest.get(each[1], 0))] == []
