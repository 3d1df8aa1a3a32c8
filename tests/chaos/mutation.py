"""The queue with its fence taken out: what the checker must not let pass."""

import re

from tests.fixtures.database import connected

FUNCTIONS = """
SELECT pg_get_functiondef(oid) FROM pg_proc
WHERE pronamespace = 'penstock'::regnamespace AND proname IN ('finish_v2', 'put_back_v1')
"""
FENCE = re.compile(r"\s+AND j\.token (?:IS NOT DISTINCT FROM|=) g\.token\b")


NOT_DURABLE = """
CREATE OR REPLACE FUNCTION penstock.keep_durable_v1() RETURNS void LANGUAGE sql AS ''
"""


async def take_the_token_out_of_the_settle(url: str) -> None:
    """Let a settle find its job by the id alone, as some queues do."""
    async with connected(url) as connection:
        definitions = [row[0] for row in await connection.fetch(FUNCTIONS)]
        assert len(definitions) == 2
        for definition in definitions:
            mutated, fences = FENCE.subn("", definition)
            assert fences == 1, definition
            await connection.execute(mutated)


async def let_acknowledged_work_be_lost(url: str) -> None:
    """Answer before the commit is on the disk, where the server's settings allow that."""
    async with connected(url) as connection:
        await connection.execute("SET synchronous_commit = on")
        await connection.execute(NOT_DURABLE)
