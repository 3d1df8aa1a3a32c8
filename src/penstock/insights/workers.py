"""Describe the workers that hold leases, living and lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from penstock.insights.counts import Count
from penstock.store.insights import Row


class Unwritten(Struct, frozen=True):
    """Outcomes that a worker keeps because the database refuses to write them."""

    jobs: int
    error: str
    """The class of the refusal, as the driver calls it."""
    message: str
    is_claiming: bool = False
    """Whether the worker still runs other jobs, since it can write the outcomes of these."""
    ids: tuple[str, ...] = ()
    """The ids of those jobs that have run; at most 1,000."""


class _Info(Struct, frozen=True):
    """What a worker stores in its lease. Other programs may open a lease and store nothing."""

    host: str | None = None
    pid: int | None = None
    python: str | None = None
    penstock: str | None = None
    queues: dict[str, int] = {}
    calls: dict[str, int] = {}
    tasks: tuple[str, ...] = ()
    hears: bool = True
    missing_resources: dict[str, str] = {}
    alone: str | None = None
    tenants: tuple[str, ...] | None = None
    except_tenants: tuple[str, ...] | None = None
    children: int = 0
    children_most: int | None = None
    unwritten: Unwritten | None = None


class Grant(Struct, frozen=True, kw_only=True):
    """The slots of a limit that a worker holds, and how many it wants in total."""

    key: str
    slots: int
    wanted: int


class WorkerInsight(Struct, frozen=True, kw_only=True):
    """A worker: where it runs, which queues it serves, how many jobs it runs, and its heartbeat."""

    lease: str
    name: str
    kind: str
    is_alive: bool
    is_leader: bool
    started_at: datetime
    renewed_at: datetime
    expires_at: datetime
    silent: float
    """Seconds since its last heartbeat."""
    running: Count
    host: str | None
    pid: int | None
    python: str | None
    penstock: str | None
    queues: dict[str, int]
    """The slots of each queue that it serves."""
    calls: dict[str, int] = {}
    """For queues whose tasks take many jobs in one call, and so in one slot: how many at most."""
    tasks: tuple[str, ...]
    hears: bool
    """Whether notifications of new jobs reach it, so that it need not poll."""
    missing_resources: dict[str, str]
    alone: str | None = None
    """The suspect job for which it keeps all its other slots free."""
    tenants: tuple[str, ...] | None = None
    """The only tenants that it serves; None for all."""
    except_tenants: tuple[str, ...] | None = None
    """The tenants that it does not serve."""
    children: int = 0
    """The child processes that it had for isolated jobs at its last heartbeat."""
    children_most: int | None = None
    """How many child processes it may have."""
    unwritten: Unwritten | None = None
    """The outcomes that it cannot write, and why."""
    grants: tuple[Grant, ...] = ()

    @property
    def age(self) -> float:
        """Seconds since the worker took its lease."""
        return (self.renewed_at - self.started_at).total_seconds() + self.silent

    @property
    def patience(self) -> float:
        """Seconds without a heartbeat after which the worker counts as lost."""
        return (self.expires_at - self.renewed_at).total_seconds()

    def serves(self, lane: str) -> bool:
        """Return whether the worker takes jobs of a lane.

        Where workers serve only some tenants, each lane is a tenant.
        """
        if self.tenants is not None and lane not in self.tenants:
            return False
        return lane not in (self.except_tenants or ())

    def may_run(self, task: str) -> bool:
        """Return whether the worker may know a task. Workers of other software list no tasks."""
        return task in self.tasks or (not self.tasks and self.penstock is None)

    @property
    def slots(self) -> int:
        return sum(self.queues.values())

    @property
    def room(self) -> int:
        """How many jobs the worker can run at once. A slot runs many if a call takes many jobs."""
        return sum(slots * self.calls.get(queue, 1) for queue, slots in self.queues.items())

    @property
    def is_busy(self) -> bool:
        return 0 < self.room <= self.running.number


class WorkerPage(Struct, frozen=True, kw_only=True):
    """A page of workers, those that are alive first, and how many other workers there are."""

    workers: tuple[WorkerInsight, ...]
    alive: int
    """How many workers are alive, on this page or not."""
    left_out: int
    after: str | None = None
    """Where the next page begins; None on the last."""

    @property
    def living_left_out(self) -> int:
        return self.alive - sum(worker.is_alive for worker in self.workers)


def workers_from(rows: Sequence[Row], max_jobs: int, limit: int) -> WorkerPage:
    """Build a page from the rows of `get_workers`, which counted running jobs up to `max_jobs`."""
    number = rows[0]["in_all"] if rows else 0
    alive = rows[0]["alive_in_all"] if rows else 0
    last = max(rows, key=lambda row: row["place"], default=None)
    after = str(last["id"]) if last and len(rows) == limit and last["place"] < number else None
    workers = tuple(_worker_from(row, max_jobs) for row in rows)
    left_out = number - len(workers)
    return WorkerPage(workers=workers, alive=alive, left_out=left_out, after=after)


def _worker_from(row: Row, max_jobs: int) -> WorkerInsight:
    del row["in_all"], row["alive_in_all"], row["place"]
    info = asdict(_decode_info(row.pop("info")))
    running = Count.of(row.pop("running"), max_jobs)
    grants = _grants(row.pop("grants"))
    return WorkerInsight(lease=str(row.pop("id")), running=running, grants=grants, **row, **info)


_grants = msgspec.json.Decoder(tuple[Grant, ...]).decode


def _decode_info(text: str) -> _Info:
    try:
        return msgspec.json.decode(text, type=_Info)
    except msgspec.ValidationError:
        return _Info()
