"""Read the current state of many subjects in one call, each with a version, for live updates."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.connect.scope import Calls
from penstock.errors import BadArgument, JobNotFound
from penstock.groups.batches import BatchStatus, status_from
from penstock.insights import MAX_COUNTED_OFTEN, Insights, QueueInsight
from penstock.job import FINAL, State
from penstock.store import Executor, key_of
from penstock.store.insights import LiveQueries, Row

SubjectKind = Literal["job", "batch", "queue", "tenant", "user"]
KINDS: Final[tuple[SubjectKind, ...]] = get_args(SubjectKind)

_IDS: Final = ("id", "batch", "workflow")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode


class JobNow(Struct, frozen=True, kw_only=True):
    """A job without its large fields, for clients that watch it.

    `error` is the error of the last attempt, without its traceback. `result_left_out` is True if
    the result is too large to be included. The progress is included until the job ends.
    """

    id: str
    task: str
    state: State
    reason: str | None
    queue: str
    tenant: str
    subject: str | None
    requested_by: str | None
    attempt: int
    failures: int
    losses: int
    max_attempts: int
    done: float | None
    total: float | None
    message: str | None
    error: dict[str, Any] | None
    result: Any
    result_left_out: bool
    created_at: datetime
    run_at: datetime | None
    attempted_at: datetime | None
    finished_at: datetime | None
    batch: str | None
    workflow: str | None
    step: str | None


class OwnerNow(Struct, frozen=True, kw_only=True):
    """How many recent jobs of a tenant, or of a user who requested them, are in each state.

    The counts cover the last `of` jobs that anybody has enqueued. Running jobs are always counted,
    however old they are.
    """

    name: str
    of: int
    scheduled: int
    ready: int
    running: int
    blocked: int
    completed: int
    failed: int
    cancelled: int


class Present(Struct, frozen=True, kw_only=True):
    """The current state of a subject.

    `version` is `time.number-digest`. The time, by the database's clock, and the number never
    decrease. The digest is that of the state, so equal versions mean equal states. For a job or a
    batch, the time is that of its last change, and the number counts progress reports or ended jobs
    since then; both are the same for all readers. For a queue, a tenant or a user, the time is when
    its jobs were counted.
    """

    version: str
    state: JobNow | BatchStatus | QueueInsight | OwnerNow
    is_final: bool = False

    def is_same(self, version: str) -> bool:
        """Return whether another version stands for the same state."""
        return self.version.partition("-")[2] == version.partition("-")[2]


def job_now(row: Mapping[str, Any]) -> Present:
    """Return the state of a job from a row of `watch_jobs`."""
    fields = dict(row)
    change = fields.pop("changed_at"), fields.pop("changes")
    for name in _IDS:
        fields[name] = None if row[name] is None else str(row[name])
    for name in ("error", "result"):
        fields[name] = None if row[name] is None else msgspec.json.decode(row[name])
    state = JobNow(**fields)
    return Present(version=_version(state, *change), state=state, is_final=state.state in FINAL)


def batch_now(row: Mapping[str, Any]) -> Present:
    """Return the state of a batch from a row of `get_batches`.

    Its rate falls all the time, so it is left out of the digest of the version.
    """
    state = status_from(row)
    facts = replace(state, rate=0.0, eta=None)
    version = _version(facts, row["changed_at"], row["changes"])
    return Present(version=version, state=state, is_final=state.is_finished)


def queue_now(queue: QueueInsight, moment: datetime) -> Present:
    """Return the state of a queue.

    Values that change with time alone, such as the age of its oldest job, are left out of the
    digest of the version.
    """
    facts = replace(queue, waited=None, window=replace(queue.window, changes_in=None))
    return Present(version=_version(facts, moment), state=queue)


def owner_now(row: Mapping[str, Any], of: int) -> Present:
    """Return the state of a tenant or a user from a row of `watch_owners`."""
    fields = {name: row[name] for name in OwnerNow.__struct_fields__ if name != "of"}
    state = OwnerNow(**fields, of=of)
    return Present(version=_version(state, row["now"]), state=state)


def _version(facts: Struct, moment: datetime, changes: int = 0) -> str:
    """Return the version of a state that changed at this moment.

    `changes` counts later changes that have no time of their own.
    """
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
    return f"{microseconds}.{changes}-{zlib.crc32(_encode(facts)):08x}"


PRESENT_AT_ONCE: Final = 1000
MAX_RESULT_BYTES: Final = 16 * 1024
NEWEST_JOBS: Final = 10_000


class SnapshotCalls(Calls):
    """The call for live updates."""

    async def present(self, kind: SubjectKind, ids: Sequence[str]) -> dict[str, Present]:
        """Return the current state of jobs, batches, queues, tenants or users, by id or name.

        Jobs and batches that do not exist or belong to another tenant are left out. Counts are
        bounded: see `OwnerNow` and `Count`.
        """
        if len(ids) > PRESENT_AT_ONCE:
            raise BadArgument("ids", len(ids), f"at most {PRESENT_AT_ONCE} in one call")
        if kind not in KINDS:
            raise BadArgument("kind", kind, f"one of {', '.join(KINDS)}")
        if kind in ("job", "batch"):
            return await self._jobs_or_batches(kind, ids)
        return await (self._queues(ids) if kind == "queue" else self._owners(kind, ids))

    @property
    def _own(self) -> str | None:
        return None if self._tenant is None else self._tenant.name

    async def _jobs_or_batches(self, kind: SubjectKind, ids: Sequence[str]) -> dict[str, Present]:
        keys = []
        for text in ids:
            with suppress(JobNotFound):
                keys.append(key_of(text))
        queries = LiveQueries(self.store)

        async def read(on: Executor) -> list[Row]:
            if kind == "job":
                return await queries.jobs(on, keys, MAX_RESULT_BYTES)
            return await queries.batches(on, keys)

        snapshot = job_now if kind == "job" else batch_now
        # Without row level security, this check alone keeps tenants apart.
        return {
            str(row["id"]): snapshot(row)
            for row in await self._execute(read)
            if self._own in (None, row["tenant"])
        }

    async def _queues(self, names: Sequence[str]) -> dict[str, Present]:
        """Return the state of queues, with zero counts for unknown ones.

        A client for one tenant gets no queues.
        """
        if self._tenant is not None:
            return {}

        async def read(on: Executor) -> tuple[datetime, dict[str, QueueInsight]]:
            moment = await LiveQueries(self.store).time(on)
            insights = Insights(self.store, on)
            return moment, await insights.queues_named(names, count_to=MAX_COUNTED_OFTEN)

        moment, queues = await self._execute(read)
        return {name: queue_now(queue, moment) for name, queue in queues.items()}

    async def _owners(self, kind: SubjectKind, names: Sequence[str]) -> dict[str, Present]:
        within = self._own
        if kind == "tenant":
            chosen = {"tenants": [name for name in names if within in (None, name)]}
        else:
            chosen = {"users": list(names)}
        rows = await self._execute(
            lambda on: LiveQueries(self.store).owners(
                on, **chosen, within=within, newest=NEWEST_JOBS
            )
        )
        return {row["name"]: owner_now(row, NEWEST_JOBS) for row in rows}
