"""Subjects as they are now, each with its version, many in one call: for those who watch."""

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
from penstock.store.live import LiveQueries, Row

SubjectKind = Literal["job", "batch", "queue", "tenant", "user"]
KINDS: Final[tuple[SubjectKind, ...]] = get_args(SubjectKind)

_IDS: Final = ("id", "batch", "workflow")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder().encode


class JobNow(Struct, frozen=True, kw_only=True):
    """A job to one who watches it: all but what may be large.

    `error` is how the last attempt ended badly, without its traceback; `result_left_out` says that
    the result is too long to be told here. Progress is told while the job lives.
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
    """How many of the newest jobs of a tenant, or of one who asked for them, are in which state.

    The newest are the last `of` that were enqueued by anybody. What runs is told, however old.
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
    """A subject as it is now.

    `version` is `time.number-digest`: a time of the database's and a number, which never fall, and
    a digest of the state, so that the same version is the same state. Of a job or a batch the time
    is that of its last change, and the number counts what was reported or has ended since; they are
    the same for all who look. A queue, a tenant or a user is counted, and the time is the count's.
    """

    version: str
    state: JobNow | BatchStatus | QueueInsight | OwnerNow
    is_final: bool = False

    def is_same(self, version: str) -> bool:
        """Whether a version is that of this very state, whenever it was looked at."""
        return self.version.partition("-")[2] == version.partition("-")[2]


def job_now(row: Mapping[str, Any]) -> Present:
    """A job from a row of `watch_jobs`."""
    fields = dict(row)
    changed = fields.pop("changed_at"), fields.pop("changes")
    for name in _IDS:
        fields[name] = None if row[name] is None else str(row[name])
    for name in ("error", "result"):
        fields[name] = None if row[name] is None else msgspec.json.decode(row[name])
    state = JobNow(**fields)
    return Present(version=_version(state, *changed), state=state, is_final=state.state in FINAL)


def batch_now(row: Mapping[str, Any]) -> Present:
    """A batch from a row of `get_batches`; its rate fades all the time, which is no news."""
    state = status_from(row)
    facts = replace(state, rate=0.0, eta=None)
    version = _version(facts, row["changed_at"], row["changes"])
    return Present(version=version, state=state, is_final=state.is_finished)


def queue_now(queue: QueueInsight, moment: datetime) -> Present:
    """A queue; that its oldest job has waited a moment longer is no news."""
    facts = replace(queue, waited=None, window=replace(queue.window, changes_in=None))
    return Present(version=_version(facts, moment), state=queue)


def owner_now(row: Mapping[str, Any], of: int) -> Present:
    """A tenant or a user from a row of `watch_owners`."""
    fields = {name: row[name] for name in OwnerNow.__struct_fields__ if name != "of"}
    state = OwnerNow(**fields, of=of)
    return Present(version=_version(state, row["now"]), state=state)


def _version(facts: Struct, moment: datetime, changes: int = 0) -> str:
    """`changes` are those since the moment that left no time of their own."""
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
    return f"{microseconds}.{changes}-{zlib.crc32(_encode(facts)):08x}"


PRESENT_AT_ONCE: Final = 1000
LONGEST_RESULT: Final = 16 * 1024
NEWEST: Final = 10_000


class SnapshotCalls(Calls):
    """The call for those who watch."""

    async def present(self, kind: SubjectKind, ids: Sequence[str]) -> dict[str, Present]:
        """Jobs, batches, queues, tenants or users as they are now, by id or name.

        A job or batch that is not there is left out, and what is another tenant's. The rest is
        counted within bounds: see `OwnerNow` and `Count`.
        """
        if len(ids) > PRESENT_AT_ONCE:
            raise BadArgument("ids", len(ids), f"at most {PRESENT_AT_ONCE} in one call")
        if kind not in KINDS:
            raise BadArgument("kind", kind, f"one of {', '.join(KINDS)}")
        if kind in ("job", "batch"):
            return await self._numbered(kind, ids)
        return await (self._queues(ids) if kind == "queue" else self._owners(kind, ids))

    @property
    def _own(self) -> str | None:
        return None if self._tenant is None else self._tenant.name

    async def _numbered(self, kind: SubjectKind, ids: Sequence[str]) -> dict[str, Present]:
        keys = []
        for each in ids:
            with suppress(JobNotFound):
                keys.append(key_of(each))
        watches = LiveQueries(self.store)

        async def look(on: Executor) -> list[Row]:
            if kind == "job":
                return await watches.jobs(on, keys, LONGEST_RESULT)
            return await watches.batches(on, keys)

        now = job_now if kind == "job" else batch_now
        # Without row level security nobody but us keeps tenants apart.
        return {
            str(row["id"]): now(row)
            for row in await self._ask(look)
            if self._own in (None, row["tenant"])
        }

    async def _queues(self, names: Sequence[str]) -> dict[str, Present]:
        """A queue that nobody has used yet is empty. They are nobody's own: no tenant sees one."""
        if self._tenant is not None:
            return {}

        async def look(on: Executor) -> tuple[datetime, dict[str, QueueInsight]]:
            moment = await LiveQueries(self.store).time(on)
            insights = Insights(self.store, on)
            return moment, await insights.queues_named(names, count_to=MAX_COUNTED_OFTEN)

        moment, queues = await self._ask(look)
        return {name: queue_now(queue, moment) for name, queue in queues.items()}

    async def _owners(self, kind: SubjectKind, names: Sequence[str]) -> dict[str, Present]:
        within = self._own
        if kind == "tenant":
            chosen = {"tenants": [name for name in names if within in (None, name)]}
        else:
            chosen = {"users": list(names)}
        rows = await self._ask(
            lambda on: LiveQueries(self.store).owners(on, **chosen, within=within, newest=NEWEST)
        )
        return {row["name"]: owner_now(row, NEWEST) for row in rows}
