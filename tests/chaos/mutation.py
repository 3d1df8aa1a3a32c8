"""The queue with a promise taken out of its functions: what the checker must not let pass."""

import re

from tests.fixtures.database import connected

FUNCTION = """
SELECT pg_get_functiondef(oid) FROM pg_proc
 WHERE pronamespace = 'penstock'::regnamespace AND proname = $1
"""
FENCE = r"\s+AND j\.token (?:IS NOT DISTINCT FROM|=) g\.token\b"
OF_WHAT_GOES_BACK = r"(?=\s+RETURNING )"
NOT_DURABLE = """
CREATE OR REPLACE FUNCTION penstock.commit_durably_v1() RETURNS void LANGUAGE sql AS ''
"""


async def _change(url: str, function: str, *changes: tuple[str, str]) -> None:
    """Write a function anew; each pattern must be in it, once."""
    async with connected(url) as connection:
        text = await connection.fetchval(FUNCTION, function)
        for pattern, replacement in changes:
            text, found = re.subn(pattern, replacement, text)
            assert found == 1, f"{function} has {found} times {pattern}:\n{text}"
        await connection.execute(text)


async def take_the_token_out_of_the_settle(url: str) -> None:
    """Let a settle find its job by the id alone, as some queues do."""
    await _change(url, "finish_jobs_v1", (FENCE, ""))
    await _change(url, "reschedule_v1", (FENCE + OF_WHAT_GOES_BACK, ""))


async def judge_leases_by_a_fast_clock(url: str) -> None:
    """Let a rescue be as if a worker judged by its own clock, which is an hour ahead."""
    ahead = "statement_timestamp() + interval '1 hour'"
    await _change(url, "rescue_v1", (r"statement_timestamp\(\)", ahead))


async def count_slots_without_their_lock(url: str) -> None:
    """Let slots be granted side by side, each by what was granted before all of them."""
    slowly = "PERFORM pg_sleep(0.2); INSERT INTO"
    await _change(
        url, "grant_slots_v1", (r"PERFORM lock_grants_v1\(p_keys\);", ""), ("INSERT INTO", slowly)
    )


async def count_each_loss_twice(url: str) -> None:
    await _change(url, "mark_worker_lost_v1", ("THEN 1 ELSE 0 END", "THEN 2 ELSE 0 END"))


async def tell_nobody_of_new_jobs(url: str) -> None:
    await _change(url, "notify_ready_v1", (r"(?s)SELECT pg_notify\(.*?\n    \);", "SELECT;"))


async def let_acknowledged_work_be_lost(url: str) -> None:
    """Answer before the commit is on the disk, where the server's settings allow that."""
    async with connected(url) as connection:
        await connection.execute("SET synchronous_commit = on")
        await connection.execute(NOT_DURABLE)
