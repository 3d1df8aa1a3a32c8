"""The queue's SQL functions, called as any client could, with a clock that tests may set."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
# A moment for a clock that a test sets: today, since history has partitions for the coming weeks.
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
PLAIN_LINE = ("", 0)


@dataclass(slots=True)
class Engine:
    """One connection's way to the functions. `now` is NULL, as in production, unless set."""

    connection: asyncpg.Connection
    now: datetime | None = None

    async def call(self, function: str, **arguments: Any) -> list[asyncpg.Record]:
        """The rows of a function, its arguments given by name without their `p_`."""
        named = ", ".join(f"p_{name} => ${i}" for i, name in enumerate(arguments, start=1))
        sql = f"SELECT * FROM penstock.{function}({named})"
        return await self.connection.fetch(sql, *arguments.values())

    async def value(self, function: str, **arguments: Any) -> Any:
        [row] = await self.call(function, **arguments)
        return row[0]

    async def enqueue(self, count: int = 1, **columns: Any) -> list[int]:
        """The ids of new jobs, alike but for their order."""
        given = {name: [value] * count for name, value in columns.items()}
        tasks = given.pop("tasks", ["work"] * count)
        rows = await self.call(
            "enqueue_v1", tasks=tasks, args=["{}"] * count, now=self.now, **given
        )
        return [row["id"] for row in rows]

    async def lease(self, worker: str = "worker", ttl: float = 60.0) -> int:
        return await self.value("open_lease_v1", worker=worker, ttl=ttl, now=self.now)

    async def claim(
        self,
        lease: int,
        limit: int = 1000,
        *,
        queue: str = "default",
        lines: Sequence[tuple[str, int]] = (PLAIN_LINE,),
        cursors: Sequence[tuple[datetime, int]] | None = None,
        takes: Sequence[int] | None = None,
    ) -> list[asyncpg.Record]:
        cursors = cursors or [(LONG_AGO, 0)] * len(lines)
        return await self.call(
            "claim_v1",
            lease=lease,
            queue=queue,
            lanes=[lane for lane, _ in lines],
            priorities=[priority for _, priority in lines],
            cursor_times=[ready_at for ready_at, _ in cursors],
            cursor_ids=[id for _, id in cursors],
            takes=takes,
            limit=limit,
            now=self.now,
        )

    async def attempt(self, lease: int | None = None, **columns: Any) -> asyncpg.Record:
        """A new job, claimed: its id and token among others."""
        [id] = await self.enqueue(**columns)
        lease = await self.lease() if lease is None else lease
        queue = columns.get("queues", "default")
        line = (columns.get("lanes", ""), columns.get("priorities", 0))
        claimed = await self.claim(lease, queue=queue, lines=[line])
        return next(each for each in claimed if each["id"] == id)

    async def mark_started(self, attempts: Iterable[Any]) -> dict[UUID, bool]:
        """Mark attempts as begun: whether each was marked; without those that lost their job."""
        attempts = list(attempts)
        rows = await self.call(
            "mark_started_v1",
            ids=[each["id"] for each in attempts],
            tokens=[each["token"] for each in attempts],
        )
        return {row["token"]: row["marked"] for row in rows}

    async def begun(self, lease: int | None = None, **columns: Any) -> asyncpg.Record:
        """A new job, claimed and marked as begun."""
        attempt = await self.attempt(lease, **columns)
        assert await self.mark_started([attempt]) == {attempt["token"]: True}
        return attempt

    async def settle(self, attempts: Iterable[Any], **columns: Any) -> dict[int, str]:
        """Settle attempts alike; the answers for those that were not settled."""
        attempts = list(attempts)
        return await self.settle_tokens(
            [each["id"] for each in attempts], [each["token"] for each in attempts], **columns
        )

    async def settle_tokens(
        self, ids: list[int], tokens: Sequence[UUID | None], **columns: Any
    ) -> dict[int, str]:
        given = {name: [value] * len(ids) for name, value in columns.items()}
        rows = await self.call("settle_v1", ids=ids, tokens=tokens, now=self.now, **given)
        return {row["id"]: row["answer"] for row in rows}

    async def keeps_waiting(self) -> bool:
        """Whether somebody waits for a lock that this connection's transaction holds."""
        return await self.connection.fetchval(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted "
            "AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
        )

    async def answers(self, function: str, *ids: int, **arguments: Any) -> dict[int, str]:
        """What cancel, retry or delete answered."""
        rows = await self.call(function, ids=list(ids), **arguments)
        return {row["id"]: row["answer"] for row in rows}

    async def job(self, id: int) -> asyncpg.Record:
        """The job, live or final."""
        [row] = await self.connection.fetch("SELECT * FROM penstock.job_all WHERE id = $1", id)
        return row

    async def states(self) -> dict[int, str]:
        rows = await self.connection.fetch("SELECT id, state FROM penstock.job_all ORDER BY id")
        return {row["id"]: row["state"] for row in rows}

    async def live(self, id: int) -> asyncpg.Record | None:
        """The live row with all its columns, the token among them."""
        return await self.connection.fetchrow("SELECT * FROM penstock.job WHERE id = $1", id)
