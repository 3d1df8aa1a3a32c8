"""A column that tables of jobs get is in each list of them, or left out of it on purpose."""

import re

import asyncpg

from penstock import sql
from penstock.store import Store

# What an attempt, a wait or a worker has for a time.
OF_LIVE_JOBS = {"lease", "token", "begun_token", "stuck_since", "suspect", "pending"}
OF_ENDED_JOBS = {"finished_at", "expires_on", "result"}
# A job that is run again begins with fresh chances.
ANEW = {*OF_LIVE_JOBS, "attempted_at", "reason", "failures", "losses"}
NOT_SHOWN = {"last_token", "max_losses", "has_children", "expires_on"}


async def columns(connection: asyncpg.Connection, table: str) -> set[str]:
    query = (
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = 'penstock' AND table_name = $1"
    )
    return {row["column_name"] for row in await connection.fetch(query, table)}


def inserted(function: str, table: str) -> set[str]:
    """The columns that a function lists when it inserts into a table."""
    [found] = re.findall(rf"INSERT INTO {table} \(([^)]*)\)", sql.function(function, "penstock"))
    return set(found.replace(",", " ").split())


async def test_history_has_the_columns_of_live_jobs_that_outlive_them(
    connection: asyncpg.Connection,
) -> None:
    live, ended = [await columns(connection, table) for table in ("job", "job_history")]
    assert live - ended == OF_LIVE_JOBS
    assert ended - live == OF_ENDED_JOBS
    assert await columns(connection, "job_all") == (live | ended) - (
        OF_LIVE_JOBS - {"stuck_since", "pending"}
    )


async def test_a_job_that_ends_takes_all_of_them_to_history(connection: asyncpg.Connection) -> None:
    assert inserted("finish_jobs_v1", "job_history") == await columns(connection, "job_history")


async def test_a_job_that_is_run_again_brings_all_but_its_chances_back(
    connection: asyncpg.Connection,
) -> None:
    assert inserted("retry_v1", "job") == await columns(connection, "job") - ANEW


async def test_each_list_of_jobs_shows_the_same_columns(connection: asyncpg.Connection) -> None:
    shown = await columns(connection, "job_all") - NOT_SHOWN | {"progress"}
    for name in (
        "get_jobs",
        "list_jobs",
        "list_jobs_of_batch",
        "list_jobs_of_workflow",
        "list_failed",
    ):
        statement = await connection.prepare(Store("penstock").statement(name))
        found = {attribute.name for attribute in statement.get_attributes()}
        assert found - {"worker"} == shown, name
