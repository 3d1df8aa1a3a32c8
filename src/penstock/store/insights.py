"""Run the read-only statements for insights, live updates and unique keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from penstock.store.batches import Batches
from penstock.store.connection import Executor
from penstock.store.store import Store

Row: TypeAlias = dict[str, Any]


class InsightQueries:
    """Run read-only statements on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def queues(
        self,
        on: Executor,
        count_to: int,
        limit: int,
        max_counted: int,
        names: Sequence[str] = (),
        *,
        after: str | None = None,
        page: int | None = None,
        busy_first: bool = False,
    ) -> list[Row]:
        """Return how many jobs wait and run in each queue.

        Of the queues with ready jobs, the first `limit` by name and those in `names` are returned.
        Up to `max_counted` queues are counted, with up to `count_to` jobs in each.
        """
        parameters = count_to, limit, max_counted, list(names), after, page, busy_first
        return await self._rows(on, "get_queues", *parameters)

    async def workers(
        self, on: Executor, count_to: int, limit: int, after: int | None = None
    ) -> list[Row]:
        """Return up to `limit` leases. Valid leases take precedence over expired ones.

        Up to `count_to` running jobs of each are counted.
        """
        return await self._rows(on, "get_workers", count_to, limit, after)

    async def lanes(
        self,
        on: Executor,
        queue: str,
        *,
        start: str,
        max_scanned: int,
        limit: int,
        count_to: int,
        max_counted: int,
    ) -> list[Row]:
        """Return the largest lanes of a queue, from the lane `start` on.

        To find the largest lanes, up to `max_scanned` pairs of lane and priority are scanned, and
        up to `max_counted` jobs are counted. Then up to `count_to` jobs of each returned lane are
        counted.
        """
        values = queue, start, max_scanned, limit, count_to, max_counted, count_to
        return await self._rows(on, "get_lanes", *values)

    async def limits(
        self,
        on: Executor,
        keys: Sequence[str] | None,
        limit: int,
        *,
        max_scanned: int,
        max_counted: int,
        after: str | None = None,
    ) -> list[Row]:
        """Return limits and the keys that they apply to. Keys that hold up jobs come first."""
        chosen = None if keys is None else list(keys)
        return await self._rows(on, "get_limits", chosen, limit, max_scanned, max_counted, after)

    async def turn(self, on: Executor, job: int, count_to: int) -> Row | None:
        """Return what decides when a waiting job runs, such as how many jobs come before it.

        Return None if there is no such live job.
        """
        rows = await self._rows(on, "get_turn", job, count_to)
        return rows[0] if rows else None

    async def late(
        self, on: Executor, limit: int, among: int, states: Sequence[str] | None, *texts: str | None
    ) -> list[Row]:
        chosen = None if states is None else list(states)
        return await self._rows(on, "get_late_jobs", limit, among, chosen, *texts)

    async def depths(self, on: Executor, count_to: int, max_queues: int) -> list[Row]:
        return await self._rows(on, "get_depths", count_to, max_queues)

    async def time(self, on: Executor) -> list[Row]:
        """Read the database's time. As the cheapest statement, it measures a round trip."""
        return await self._rows(on, "get_time")

    async def lateness(self, on: Executor, jobs: Sequence[int]) -> list[Row]:
        return await self._rows(on, "get_lateness", list(jobs))

    async def running(self, on: Executor, limit: int, among: int) -> list[Row]:
        return await self._rows(on, "get_running_jobs", limit, among)

    async def failures(self, on: Executor, limit: int) -> list[Row]:
        return await self._rows(on, "get_failures", limit)

    async def throughput(self, on: Executor, windows: Sequence[float], blocks: int) -> list[Row]:
        return await self._rows(on, "get_throughput", self._store.schema, list(windows), blocks)

    async def place(self, on: Executor, job: int) -> Row:
        [row] = await self._rows(on, "get_job_progress", job)
        return row

    async def own_place(self, on: Executor, job: int) -> Row:
        [row] = await self._rows(on, "get_own_progress", job)
        return row

    async def steps(self, on: Executor, job: int, limit: int) -> list[Row]:
        return await self._rows(on, "get_steps", job, limit)

    async def event_waits(self, on: Executor, job: int) -> list[Row]:
        return await self._rows(on, "get_event_waits", job)

    async def last_job_up_to(self, on: Executor, job: int) -> Row | None:
        rows = await self._rows(on, "find_last_job_up_to", job)
        return rows[0] if rows else None

    async def _rows(self, on: Executor, name: str, *parameters: Any) -> list[Row]:
        return [dict(row) for row in await on.fetch(self._store.statement(name), *parameters)]


class LiveQueries:
    """Run statements for live updates on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def jobs(self, on: Executor, ids: Sequence[int], longest: int) -> list[Row]:
        """Return the jobs with these ids. Ids of jobs that do not exist are left out.

        Results of more than `longest` bytes are left out, too.
        """
        rows = await on.fetch(self._store.statement("watch_jobs"), list(ids), longest)
        return [dict(row) for row in rows]

    async def batches(self, on: Executor, ids: Sequence[int]) -> list[Row]:
        return await Batches(self._store).get(on, ids)

    async def owners(
        self,
        on: Executor,
        *,
        tenants: Sequence[str] = (),
        users: Sequence[str] = (),
        within: str | None,
        newest: int,
    ) -> list[Row]:
        """Count the newest jobs of tenants and users by state.

        `within` is the tenant whose jobs are counted. None counts the jobs of all tenants.
        """
        sql, schema = self._store.statement("watch_owners"), self._store.schema
        rows = await on.fetch(sql, list(tenants), list(users), within, newest, schema)
        return [dict(row) for row in rows]

    async def time(self, on: Executor) -> datetime:
        moment: datetime = await on.fetchval(self._store.statement("get_time"))
        return moment


class KeyHolder(NamedTuple):
    """The job that holds a unique key.

    `until` is set if the job has ended and holds the key until then.
    """

    job: str
    until: datetime | None


class UniqueKeys:
    """Run statements for unique keys on the connection of the caller."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def holders(self, on: Executor, ids: Sequence[int]) -> dict[str, KeyHolder]:
        """Return who holds the unique key of each job, by the ids of the jobs.

        Jobs whose key nobody holds are left out.
        """
        rows = await on.fetch(self._store.statement("find_unique_holders"), list(ids))
        return {str(row["id"]): KeyHolder(str(row["job"]), row["until"]) for row in rows}
