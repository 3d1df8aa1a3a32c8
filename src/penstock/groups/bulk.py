"""Find jobs by filter, and change many at once, with the result for each."""

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
from penstock.store.insights import UniqueKeys
from penstock.store.matching import Match, matches, newest_id
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
    """Yield pages of the ids of matching jobs, live ones first, with the cursor of the next page.

    The cursor is None after the last page. Only ids higher than `above` and lower than `below`
    match. A job that ends meanwhile is not found twice.
    """
    if client._tenant is not None:
        tenant = client._tenant.resolve(tenant)
    filters = [
        scope.check_states(states),
        *scope.check_texts(queue=queue, task=task, tenant=tenant, subject=subject, tag=tag),
        None if batch is None else batch_key(batch),
        None if workflow is None else workflow_key(workflow),
        above,
        below,
    ]
    last = None if after is None else _decode_cursor(after)
    while True:
        page = await client._execute(
            partial(matches, client.store, filters=filters, after=last, limit=size)
        )
        last = page[-1] if len(page) == size else None
        yield [str(match.id) for match in page], None if last is None else _encode_cursor(last)
        if last is None:
            return


async def newest(client: Calls) -> str:
    """Return the highest id of any job so far. Jobs that are enqueued later have higher ones."""
    return str(max(1, await client._execute(partial(newest_id, client.store))))


def _encode_cursor(match: Match) -> str:
    """Encode the last job of a page as a cursor.

    It has the id and `until`, and for an ended job also the day and time of its end.
    """
    numbers = [match.id, _microseconds(match.until)]
    if match.day is not None and match.at is not None:
        numbers += [match.day.toordinal(), _microseconds(match.at)]
    return "-".join(map(str, numbers))


def _decode_cursor(after: str) -> Match:
    """Return the last job of a page. Raises BadArgument if the text is not a cursor."""
    try:
        match [int(part) for part in after.split("-")]:
            case [job, until]:
                return Match(job, None, None, _moment(until))
            case [job, until, day, at]:
                return Match(job, date.fromordinal(day), _moment(at), _moment(until))
    except (ValueError, OverflowError):
        pass
    raise BadArgument("after", after, "the `after` that the call before returned")


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


MISSING = "missing"


class BulkCalls(Calls):
    """The calls that change many jobs at once. They do not raise for jobs that cannot be changed.

    For each id they return the state that the job has now, `deleted`, `missing` if the job does not
    exist, or `held` if another job holds its unique key.
    """

    async def retry_many(self, jobs: Sequence[JobId], *, completed: bool = True) -> dict[str, str]:
        """Run jobs again; they become `ready`, or `blocked` while they wait for other jobs.

        `completed=False` leaves out completed jobs, even those that complete during the call.
        """
        retry = partial(self.store.retry, completed=completed, by=self._by)
        return await self._change_many(jobs, retry)

    async def cancel_many(self, jobs: Sequence[JobId], reason: str = "requested") -> dict[str, str]:
        """Cancel jobs now, running or not; they become `cancelled`."""
        return await self._change_many(jobs, partial(self.store.cancel, reason=reason, by=self._by))

    async def delete_many(self, jobs: Sequence[JobId]) -> dict[str, str]:
        """Delete jobs that are not running, with everything stored about them."""
        return await self._change_many(jobs, partial(self.store.delete, by=self._by))

    async def unblock_many(self, jobs: Sequence[JobId], *, by: str | None = None) -> dict[str, str]:
        """Let blocked jobs run now, without waiting for other jobs. They become `ready`.

        `by` is the name that the audit records for a change.
        """
        workflows, actor = Workflows(self.store), self._actor(by)
        return await self._change_many(jobs, lambda on, keys: workflows.unblock(on, keys, actor))

    async def unique_holders(self, jobs: Sequence[JobId]) -> dict[str, str]:
        """Return which job holds the unique key of each job, by the ids of the jobs.

        Jobs whose key nobody holds are left out.
        """
        keys = list(_keys(jobs).values())
        holders = await self._execute(lambda on: UniqueKeys(self.store).holders(on, keys))
        return {job: holder.job for job, holder in holders.items()}

    async def _change_many(
        self,
        jobs: Sequence[JobId],
        change: Callable[[Executor, Sequence[int]], Awaitable[dict[int, str]]],
    ) -> dict[str, str]:
        keys = _keys(jobs)
        answers = await self._execute(lambda on: change(on, list(keys.values())), retry=False)
        return {job: answers[keys[job]] if job in keys else MISSING for job in map(id_of, jobs)}


def _keys(jobs: Sequence[JobId]) -> dict[str, int]:
    """Return the number of each job, by its id. Texts that cannot be ids are left out."""
    keys = {}
    for job in map(id_of, jobs):
        try:
            keys[job] = key_of(job)
        except JobNotFound:
            continue
    return keys
