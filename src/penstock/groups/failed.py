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
from penstock.groups.arguments import whole
from penstock.rate import per_second
from penstock.store import key_of
from penstock.store.failed import FailedCursor, FailedJobs
from penstock.store.workflows import Workflows
from penstock.tasks import Task

if TYPE_CHECKING:
    from penstock.connect.scope import TenantScope


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DeadFilter(TypedDict, total=False):
    """Dead letters that agree in all that is given.

    `reason` is why a job was given up (`exhausted`, `discarded`, `worker_lost`, …), `error` the
    type of its last error. `since` and `until` are about when it failed.
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
class Which:
    """A filter, checked: its fields are in the order of the statements' places."""

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
    def of(cls, given: DeadFilter, tenant: TenantScope | None) -> Which:
        if unknown := given.keys() - {each.name for each in fields(cls)}:
            raise TypeError(f"There is no filter {', '.join(sorted(unknown))} for dead letters.")
        which = cls(**given)
        if isinstance(which.task, Task):
            which = replace(which, task=which.task.name)
        if tenant is not None:
            which = replace(which, tenant=tenant.named(which.tenant))
        which._check()
        return which

    @property
    def values(self) -> list[Any]:
        """What goes to the statements' places."""
        batch = None if self.batch is None else key_of(self.batch)
        return list(astuple(replace(self, batch=batch)))  # type: ignore[arg-type]

    @property
    def as_json(self) -> str:
        """What is given, for the audit."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return msgspec.json.encode(given).decode()

    def _check(self) -> None:
        names = ("queue", "task", "tenant", "subject", "tag", "reason", "error")
        scope.texts(**{name: getattr(self, name) for name in names})
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and not _is_aware(moment):
                raise BadArgument(name, moment, "a datetime with a time zone")
        batch: Any = self.batch
        if batch is not None and not (isinstance(batch, str) and batch.isdigit()):
            raise BadArgument("batch", batch, "the id of a batch, a text")


class Redriven(Struct, frozen=True):
    """What a redrive came to.

    `number` jobs came back, the last of them `due` then; those that were `left` are here by their
    ids, each with why: `held` (its unique key belongs to another job now), the state in which it
    is, or `missing`. Of very many the first 10,000 are told. `workflows` are those of which so many
    steps came back alone: `retry_workflow` also brings back what was cancelled because of them.
    """

    number: int = 0
    left: dict[str, str] = {}
    due: datetime | None = None
    workflows: dict[str, int] = {}


class Purged(Struct, frozen=True):
    """What a purge came to: so many are gone, and those that were `left`, by id with why."""

    number: int = 0
    left: dict[str, str] = {}


class DeadGroup(Struct, frozen=True, kw_only=True):
    """Dead letters that failed alike; `example` is the id of one, `message` what the last said."""

    task: str
    reason: str
    error: str | None
    number: int
    example: str
    message: str | None
    first_at: datetime
    last_at: datetime


class DeadSummary(Struct, frozen=True):
    """Dead letters by task, reason and type of error, the most first.

    `number` is how many were counted; `is_exact` is False if there may be more.
    """

    groups: tuple[DeadGroup, ...]
    number: int
    is_exact: bool


def place_of(after: str) -> FailedCursor:
    """The place that a page's `after` stands for."""
    moment, _, job = after.partition("-")
    if not (moment.isascii() and moment.isdigit() and job.isascii() and job.isdigit()):
        raise BadArgument("after", after, "the `after` of a page of dead letters")
    return FailedCursor(_EPOCH + timedelta(microseconds=int(moment)), int(job))


def after_of(place: FailedCursor) -> str:
    return f"{(place.failed_at - _EPOCH) // timedelta(microseconds=1)}-{place.id}"


def _is_aware(moment: Any) -> bool:
    return isinstance(moment, datetime) and moment.utcoffset() is not None


T = TypeVar("T")

LONGEST_PAGE: Final = 1000
AT_ONCE: Final = 500
COUNTED: Final = 10_000
MOST: Final = 1_000_000_000
TOLD: Final = 10_000


class FailedCalls(Calls):
    """The calls for dead letters: jobs that have failed, and stay in the history.

    They are chosen by ids or by filters; see `DeadFilter`. `by` says in the audit who has changed
    them: a row for each page of 500, with how many and which.
    """

    async def dead_letters(
        self, *, after: str | None = None, limit: int = 100, **which: Unpack[DeadFilter]
    ) -> Page:
        """Jobs that have failed, the latest first. Pass `page.after` for the next page.

        for job in (await app.dead_letters(task="shop.send")).jobs:
            print(job.reason, job.last_error, job.finished_at, job.errors)
        """
        whole("limit", limit, 1, LONGEST_PAGE)
        values = Which.of(which, self._tenant).values
        start = None if after is None else place_of(after)
        jobs = await self._ask(lambda on: FailedJobs(self.store).page(on, values, start, limit))
        if len(jobs) < limit:
            return Page(tuple(jobs), None)
        last = jobs[-1]
        assert last.finished_at is not None
        return Page(tuple(jobs), after_of(FailedCursor(last.finished_at, int(last.id))))

    async def dead_summary(
        self, *, among: int = COUNTED, **which: Unpack[DeadFilter]
    ) -> DeadSummary:
        """Count dead letters by task, reason and type of error, among so many of the latest."""
        whole("among", among, 1, 1_000_000)
        values = Which.of(which, self._tenant).values
        rows = await self._ask(lambda on: FailedJobs(self.store).sum(on, values, among))
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
        """Run failed jobs again under their ids, with fresh chances; the longest dead first.

            await app.redrive(job)
            await app.redrive(task="shop.send", error="ConnectError", rate="10/s")

        With a `rate` they come back scheduled, so many a second, and nobody needs to stay for it.
        What fails after the call began is not caught by it. `limit` is how many at most.
        """
        told = self.redriving(*jobs, rate=rate, limit=limit, by=by, **which)
        return await _last(told, Redriven())

    async def redriving(
        self,
        *jobs: JobId,
        rate: float | str | None = None,
        limit: int | None = None,
        by: str | None = None,
        **which: Unpack[DeadFilter],
    ) -> AsyncIterator[Redriven]:
        """As `redrive`, with what it has come to after each page of jobs."""
        spacing = None if rate is None else 1 / per_second("rate", rate)
        meant = Which.of(which, self._tenant).as_json
        number = 0
        due: datetime | None = None
        left: dict[str, str] = {}
        workflows: Counter[str] = Counter()
        async for keys in self._keys(jobs, limit, which, left):
            start = None if due is None or spacing is None else due + timedelta(seconds=spacing)
            rows = await self._ask(
                partial(
                    FailedJobs(self.store).redrive,
                    ids=keys,
                    spacing=spacing,
                    start=start,
                    by=self._actor(by),
                    filters=meant,
                ),
                again=False,
            )
            back = [row["due"] for row in rows if row["due"] is not None]
            _leave(left, {str(row["id"]): row["answer"] for row in rows if row["due"] is None})
            number, due = number + len(back), max(back, default=due)
            alone = [row["id"] for row in rows if row["due"] is not None]
            if alone:
                workflows += await self._ask(
                    partial(Workflows(self.store).count_cancelled_branches, ids=alone)
                )
            yield Redriven(number, dict(left), due, dict(workflows))

    async def purge(
        self,
        *jobs: JobId,
        limit: int | None = None,
        by: str | None = None,
        **which: Unpack[DeadFilter],
    ) -> Purged:
        """Erase failed jobs with all that is kept about them; the longest dead first.

            await app.purge(tenant="acme")
            await app.purge(reason="discarded", until=datetime.now(UTC) - timedelta(days=7))

        One that came back meanwhile, or never failed, is left. `limit` is how many at most.
        """
        return await _last(self.purging(*jobs, limit=limit, by=by, **which), Purged())

    async def purging(
        self,
        *jobs: JobId,
        limit: int | None = None,
        by: str | None = None,
        **which: Unpack[DeadFilter],
    ) -> AsyncIterator[Purged]:
        """As `purge`, with what it has come to after each page of jobs."""
        meant = Which.of(which, self._tenant).as_json
        number = 0
        left: dict[str, str] = {}
        async for keys in self._keys(jobs, limit, which, left):
            rows = await self._ask(
                partial(FailedJobs(self.store).purge, ids=keys, by=self._actor(by), filters=meant),
                again=False,
            )
            kept = {str(row["id"]): row["answer"] for row in rows if row["answer"] != "deleted"}
            _leave(left, kept)
            number += len(rows) - len(kept)
            yield Purged(number, dict(left))

    async def _keys(
        self, jobs: Sequence[JobId], limit: int | None, given: DeadFilter, left: dict[str, str]
    ) -> AsyncIterator[list[int]]:
        """Those that are meant, a page at a time; ids that can be no job's are `left` at once."""
        which = Which.of(given, self._tenant)
        most = MOST if limit is None else whole("limit", limit, 1, MOST)
        if bool(jobs) == any(value is not None for value in given.values()):
            raise TypeError("Name the jobs, or give at least one filter; not both.")
        if not jobs:
            async for keys in self._found(which, most):
                yield keys
            return
        keys = list(_numbers(jobs, left))
        for start in range(0, min(len(keys), most) or 1, AT_ONCE):
            yield keys[start : min(start + AT_ONCE, most)]

    async def _found(self, which: Which, most: int) -> AsyncIterator[list[int]]:
        """Those that had failed when the first page was asked for, oldest first."""
        after: FailedCursor | None = None
        while most:
            size = min(AT_ONCE, most)
            found, began = await self._ask(
                partial(FailedJobs(self.store).find, filters=which.values, after=after, limit=size)
            )
            if found:
                yield [place.id for place in found]
            if len(found) < size:
                return
            after, most = found[-1], most - size
            which = replace(which, until=began)


async def _last(answers: AsyncIterator[T], last: T) -> T:
    async for answer in answers:
        last = answer
    return last


def _leave(left: dict[str, str], more: dict[str, str]) -> None:
    """Tell of those that were left too, while they are not too many to be told of."""
    left.update(islice(more.items(), max(0, TOLD - len(left))))


def _numbers(jobs: Sequence[JobId], left: dict[str, str]) -> Iterator[int]:
    for job in dict.fromkeys(id_of(job) for job in jobs):
        try:
            yield key_of(job)
        except JobNotFound:
            left[job] = "missing"
