"""Failed jobs: look at them, retry them, or delete them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

import msgspec
from msgspec import Struct

from penstock.connect import scope
from penstock.connect.enqueue import JobId, Page, id_of
from penstock.connect.scope import Calls
from penstock.errors import BadArgument, JobNotFound
from penstock.groups.arguments import check_whole_number
from penstock.rate import per_second
from penstock.store import key_of
from penstock.store.failed import FailedCursor, FailedJobs
from penstock.store.workflows import Workflows
from penstock.tasks import Task

if TYPE_CHECKING:
    from penstock.connect.scope import TenantScope


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DeadFilter(TypedDict, total=False):
    """A filter for failed jobs: all fields that are set must match.

    `reason` is why a job failed for good (`exhausted`, `discarded`, `worker_lost`, …), `error` the
    type of its last error. `since` and `until` limit when it failed.
    """

    queue: str | None
    task: str | Task[Any, Any] | None
    tenant: str | None
    subject: str | None
    tag: str | None
    reason: str | None
    error: str | None
    batch: str | None
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class FailedFilter:
    """A checked filter. Its fields are in the order of the statements' parameters."""

    queue: str | None = None
    task: str | Task[Any, Any] | None = None
    tenant: str | None = None
    subject: str | None = None
    tag: str | None = None
    reason: str | None = None
    error: str | None = None
    batch: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def of(cls, options: DeadFilter, tenant: TenantScope | None) -> FailedFilter:
        """Check a filter. A client for one tenant sees only the jobs of that tenant."""
        if unknown := options.keys() - {field.name for field in fields(cls)}:
            raise TypeError(f"There is no filter {', '.join(sorted(unknown))} for dead letters.")
        filters = cls(**options)
        if isinstance(filters.task, Task):
            filters = replace(filters, task=filters.task.name)
        if tenant is not None:
            filters = replace(filters, tenant=tenant.resolve(filters.tenant))
        filters._check()
        return filters

    @property
    def values(self) -> list[Any]:
        """The values of the fields, as parameters of the statements."""
        batch = None if self.batch is None else key_of(self.batch)
        return list(astuple(replace(self, batch=batch)))  # type: ignore[arg-type]

    @property
    def as_json(self) -> str:
        """The fields that are set, for the audit."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        return msgspec.json.encode(values).decode()

    def _check(self) -> None:
        names = ("queue", "task", "tenant", "subject", "tag", "reason", "error")
        scope.check_texts(**{name: getattr(self, name) for name in names})
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and not _is_aware(moment):
                raise BadArgument(name, moment, "a datetime with a time zone")
        batch: Any = self.batch
        if batch is not None and not (isinstance(batch, str) and batch.isdigit()):
            raise BadArgument("batch", batch, "the id of a batch, a text")


class Redriven(Struct, frozen=True):
    """The result of a redrive.

    `number` jobs will run again, and `due` is when the last of them is due. `left` has the other
    jobs by id, with the reason: `held` (another job has the unique key now), the job's state, or
    `missing`. It lists at most 10,000 jobs. `workflows` says by workflow how many of these jobs run
    again without the steps that were cancelled when they failed; `retry_workflow` runs those steps
    again, too.
    """

    number: int = 0
    left: dict[str, str] = {}
    due: datetime | None = None
    workflows: dict[str, int] = {}


class Purged(Struct, frozen=True):
    """The result of a purge: how many jobs were deleted, and which were not.

    `left` has the jobs that were not deleted by id, with the reason.
    """

    number: int = 0
    left: dict[str, str] = {}


class DeadGroup(Struct, frozen=True, kw_only=True):
    """Failed jobs of one task with the same reason and type of error.

    `example` is the id of one of them, and `message` is the error message of the latest.
    """

    task: str
    reason: str
    error: str | None
    number: int
    example: str
    message: str | None
    first_at: datetime
    last_at: datetime


class DeadSummary(Struct, frozen=True):
    """Failed jobs by task, reason and type of error. The largest groups come first.

    `number` is how many jobs were counted; there may be more if `is_exact` is False.
    """

    groups: tuple[DeadGroup, ...]
    number: int
    is_exact: bool


def decode_cursor(after: str) -> FailedCursor:
    """Return the cursor that a page of failed jobs has encoded in `after`.

    Raises BadArgument if the text is not a cursor.
    """
    moment, _, job = after.partition("-")
    if not (moment.isascii() and moment.isdigit() and job.isascii() and job.isdigit()):
        raise BadArgument("after", after, "the `after` of a page of dead letters")
    return FailedCursor(_EPOCH + timedelta(microseconds=int(moment)), int(job))


def encode_cursor(cursor: FailedCursor) -> str:
    return f"{(cursor.failed_at - _EPOCH) // timedelta(microseconds=1)}-{cursor.id}"


def _is_aware(moment: Any) -> bool:
    return isinstance(moment, datetime) and moment.utcoffset() is not None


T = TypeVar("T")

MAX_JOBS_PER_PAGE: Final = 1000
JOBS_PER_CHANGE: Final = 500
DEFAULT_COUNTED: Final = 10_000
MAX_LIMIT: Final = 1_000_000_000
MAX_LEFT_REPORTED: Final = 10_000


class FailedCalls(Calls):
    """The calls for dead letters: failed jobs, which stay in the history.

    Choose jobs by id or by filter; see `DeadFilter`. `by` is the name that the audit records for a
    change. Each page of up to 500 changed jobs adds one audit entry, with the number of jobs and
    the filter.
    """

    async def dead_letters(
        self, *, after: str | None = None, limit: int = 100, **which: Unpack[DeadFilter]
    ) -> Page:
        """List failed jobs, the latest failure first. Pass `page.after` for the next page.

        for job in (await app.dead_letters(task="shop.send")).jobs:
            print(job.reason, job.last_error, job.finished_at, job.errors)
        """
        check_whole_number("limit", limit, 1, MAX_JOBS_PER_PAGE)
        values = FailedFilter.of(which, self._tenant).values
        start = None if after is None else decode_cursor(after)
        jobs = await self._execute(lambda on: FailedJobs(self.store).page(on, values, start, limit))
        if len(jobs) < limit:
            return Page(tuple(jobs), None)
        last = jobs[-1]
        assert last.finished_at is not None
        return Page(tuple(jobs), encode_cursor(FailedCursor(last.finished_at, int(last.id))))

    async def dead_summary(
        self, *, among: int = DEFAULT_COUNTED, **which: Unpack[DeadFilter]
    ) -> DeadSummary:
        """Count the latest `among` failed jobs by task, reason and type of error."""
        check_whole_number("among", among, 1, 1_000_000)
        values = FailedFilter.of(which, self._tenant).values
        rows = await self._execute(lambda on: FailedJobs(self.store).sum(on, values, among))
        groups = tuple(DeadGroup(**row | {"example": str(row["example"])}) for row in rows)
        number = sum(group.number for group in groups)
        return DeadSummary(groups, number, number < among)

    async def redrive(
        self,
        *jobs: JobId,
        rate: float | str | None = None,
        limit: int | None = None,
        by: str | None = None,
        **which: Unpack[DeadFilter],
    ) -> Redriven:
        """Run failed jobs again under their ids, with fresh attempts.

            await app.redrive(job)
            await app.redrive(task="shop.send", error="ConnectError", rate="10/s")

        Jobs chosen by a filter run again in the order in which they failed. With a `rate`, the jobs
        are scheduled to start at that rate, and the program may end before they do. Jobs that fail
        after the call began are left alone. `limit` is the largest number of jobs to run again.
        """
        results = self.redriving(*jobs, rate=rate, limit=limit, by=by, **which)
        return await _last(results, Redriven())

    async def redriving(
        self,
        *jobs: JobId,
        rate: float | str | None = None,
        limit: int | None = None,
        by: str | None = None,
        **which: Unpack[DeadFilter],
    ) -> AsyncIterator[Redriven]:
        """Do the same as `redrive`, but yield the result so far after each page of jobs."""
        spacing = None if rate is None else 1 / per_second("rate", rate)
        audited = FailedFilter.of(which, self._tenant).as_json
        number = 0
        due: datetime | None = None
        left: dict[str, str] = {}
        workflows: Counter[str] = Counter()
        async for keys in self._keys(jobs, limit, which, left):
            start = None if due is None or spacing is None else due + timedelta(seconds=spacing)
            rows = await self._execute(
                partial(
                    FailedJobs(self.store).redrive,
                    ids=keys,
                    spacing=spacing,
                    start=start,
                    by=self._actor(by),
                    filters=audited,
                ),
                retry=False,
            )
            times = [row["due"] for row in rows if row["due"] is not None]
            _add_left(left, {str(row["id"]): row["answer"] for row in rows if row["due"] is None})
            number, due = number + len(times), max(times, default=due)
            retried = [row["id"] for row in rows if row["due"] is not None]
            if retried:
                workflows += await self._execute(
                    partial(Workflows(self.store).count_cancelled_branches, ids=retried)
                )
            yield Redriven(number, dict(left), due, dict(workflows))

    async def purge(
        self,
        *jobs: JobId,
        limit: int | None = None,
        by: str | None = None,
        **which: Unpack[DeadFilter],
    ) -> Purged:
        """Delete failed jobs with everything stored about them.

            await app.purge(tenant="acme")
            await app.purge(reason="discarded", until=datetime.now(UTC) - timedelta(days=7))

        Jobs chosen by a filter are deleted in the order in which they failed. Jobs that never
        failed, or were retried meanwhile, are not deleted. `limit` is the largest number of jobs to
        delete.
        """
        return await _last(self.purging(*jobs, limit=limit, by=by, **which), Purged())

    async def purging(
        self,
        *jobs: JobId,
        limit: int | None = None,
        by: str | None = None,
        **which: Unpack[DeadFilter],
    ) -> AsyncIterator[Purged]:
        """Do the same as `purge`, but yield the result so far after each page of jobs."""
        audited = FailedFilter.of(which, self._tenant).as_json
        number = 0
        left: dict[str, str] = {}
        async for keys in self._keys(jobs, limit, which, left):
            rows = await self._execute(
                partial(
                    FailedJobs(self.store).purge, ids=keys, by=self._actor(by), filters=audited
                ),
                retry=False,
            )
            kept = {str(row["id"]): row["answer"] for row in rows if row["answer"] != "deleted"}
            _add_left(left, kept)
            number += len(rows) - len(kept)
            yield Purged(number, dict(left))

    async def _keys(
        self, jobs: Sequence[JobId], limit: int | None, options: DeadFilter, left: dict[str, str]
    ) -> AsyncIterator[list[int]]:
        """Yield the chosen jobs, a page at a time. Texts that cannot be ids are added to `left`."""
        filters = FailedFilter.of(options, self._tenant)
        remaining = MAX_LIMIT if limit is None else check_whole_number("limit", limit, 1, MAX_LIMIT)
        if bool(jobs) == any(value is not None for value in options.values()):
            raise TypeError("Pass either jobs or at least one filter, not both.")
        if not jobs:
            async for keys in self._matching(filters, remaining):
                yield keys
            return
        keys = list(_numbers(jobs, left))
        for start in range(0, min(len(keys), remaining) or 1, JOBS_PER_CHANGE):
            yield keys[start : min(start + JOBS_PER_CHANGE, remaining)]

    async def _matching(self, filters: FailedFilter, remaining: int) -> AsyncIterator[list[int]]:
        """Yield pages of matching failed jobs, earliest failure first.

        Jobs that fail after the first page was read are left out.
        """
        after: FailedCursor | None = None
        while remaining:
            size = min(JOBS_PER_CHANGE, remaining)
            cursors, began = await self._execute(
                partial(
                    FailedJobs(self.store).find, filters=filters.values, after=after, limit=size
                )
            )
            if cursors:
                yield [cursor.id for cursor in cursors]
            if len(cursors) < size:
                return
            after, remaining = cursors[-1], remaining - size
            filters = replace(filters, until=began)


async def _last(results: AsyncIterator[T], last: T) -> T:
    async for result in results:
        last = result
    return last


def _add_left(left: dict[str, str], more: dict[str, str]) -> None:
    """Add jobs that were left alone to the result, up to the number that it may name."""
    left.update(islice(more.items(), max(0, MAX_LEFT_REPORTED - len(left))))


def _numbers(jobs: Sequence[JobId], left: dict[str, str]) -> Iterator[int]:
    for job in dict.fromkeys(id_of(job) for job in jobs):
        try:
            yield key_of(job)
        except JobNotFound:
            left[job] = "missing"
