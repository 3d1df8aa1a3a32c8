"""Change many jobs at once, by id or by filter, with what became of each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial

from penstock.connect import scope
from penstock.connect.enqueue import JobId, id_of
from penstock.connect.scope import Calls
from penstock.errors import BadArgument, JobNotFound
from penstock.groups.batches import batch_key
from penstock.groups.workflows import workflow_key
from penstock.job import State
from penstock.store import Executor, key_of
from penstock.store.matching import Match, matches, newest_id
from penstock.store.unique import UniqueKeys
from penstock.store.workflows import Workflows

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def matching(
    client: Calls,
    *,
    states: Sequence[State] | None,
    queue: str | None,
    task: str | None,
    tenant: str | None,
    subject: str | None,
    tag: str | None,
    batch: str | None,
    workflow: str | None,
    above: int | None,
    below: int | None,
    size: int,
    after: str | None = None,
) -> AsyncGenerator[tuple[list[str], str | None]]:
    """Ids of jobs, live ones first, a page at a time, each with where the next one begins, if any.

    Only those with ids above and below these. A job that ends meanwhile is not found anew.
    """
    if client._tenant is not None:
        tenant = client._tenant.named(tenant)
    which = [
        scope.states(states),
        *scope.texts(queue=queue, task=task, tenant=tenant, subject=subject, tag=tag),
        None if batch is None else batch_key(batch),
        None if workflow is None else workflow_key(workflow),
        above,
        below,
    ]
    last = None if after is None else _match_of(after)
    while True:
        page = await client._ask(
            partial(matches, client.store, filters=which, after=last, limit=size)
        )
        last = page[-1] if len(page) == size else None
        yield [str(match.id) for match in page], None if last is None else _after_of(last)
        if last is None:
            return


async def newest(client: Calls) -> str:
    """An id that no job has passed yet: all that come later are newer."""
    return str(max(1, await client._ask(partial(newest_id, client.store))))


def _after_of(match: Match) -> str:
    """Where a page ends, as text: id and `until`; of an ended job also its day and moment."""
    place = [match.id, _microseconds(match.until)]
    if match.day is not None and match.at is not None:
        place += [match.day.toordinal(), _microseconds(match.at)]
    return "-".join(map(str, place))


def _match_of(after: str) -> Match:
    """The place that such a text stands for."""
    try:
        match [int(part) for part in after.split("-")]:
            case [job, until]:
                return Match(job, None, None, _moment(until))
            case [job, until, day, at]:
                return Match(job, date.fromordinal(day), _moment(at), _moment(until))
    except (ValueError, OverflowError):
        pass
    raise BadArgument("after", after, "the `after` of the call before")


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


MISSING = "missing"


class BulkCalls(Calls):
    """The calls that change many jobs at once; none raises for one that cannot be changed.

    They answer for each job by its id: with the state that it has now, `deleted`, `missing` if
    there is none, or `held` if its unique key is another's.
    """

    async def retry_many(self, jobs: Sequence[JobId], *, completed: bool = True) -> dict[str, str]:
        """Run jobs again; those are `ready` or, while others are before them, `blocked`.

        `completed=False` leaves those that have completed, also those that do just now.
        """
        retry = partial(self.store.retry, completed=completed, by=self._by)
        return await self._change_many(jobs, retry)

    async def cancel_many(self, jobs: Sequence[JobId], reason: str = "requested") -> dict[str, str]:
        """End jobs now, running or not; those are `cancelled`."""
        return await self._change_many(jobs, partial(self.store.cancel, reason=reason, by=self._by))

    async def delete_many(self, jobs: Sequence[JobId]) -> dict[str, str]:
        """Erase jobs that do not run, with all that is kept about them; those are `deleted`."""
        return await self._change_many(jobs, partial(self.store.delete, by=self._by))

    async def unblock_many(self, jobs: Sequence[JobId], *, by: str | None = None) -> dict[str, str]:
        """Let jobs run now that wait for others; those are `ready`. `by` is kept in the audit."""
        workflows, actor = Workflows(self.store), self._actor(by)
        return await self._change_many(jobs, lambda on, keys: workflows.unblock(on, keys, actor))

    async def unique_holders(self, jobs: Sequence[JobId]) -> dict[str, str]:
        """Which job holds the unique key of each; one whose key nobody holds is left out."""
        keys = list(_keys(jobs).values())
        found = await self._ask(lambda on: UniqueKeys(self.store).holders(on, keys))
        return {job: holder.job for job, holder in found.items()}

    async def _change_many(
        self,
        jobs: Sequence[JobId],
        change: Callable[[Executor, Sequence[int]], Awaitable[dict[int, str]]],
    ) -> dict[str, str]:
        keys = _keys(jobs)
        answers = await self._ask(lambda on: change(on, list(keys.values())), again=False)
        return {job: answers[keys[job]] if job in keys else MISSING for job in map(id_of, jobs)}


def _keys(jobs: Sequence[JobId]) -> dict[str, int]:
    """The numbers behind ids; what cannot be one has none."""
    keys = {}
    for job in map(id_of, jobs):
        try:
            keys[job] = key_of(job)
        except JobNotFound:
            continue
    return keys
