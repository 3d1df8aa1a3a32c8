"""Change many jobs at once, with what became of each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from penstock.client.asking import Asking
from penstock.client.enqueued import JobId, id_of
from penstock.errors import JobNotFound
from penstock.store import Executor, key_of
from penstock.store.unique import Uniques
from penstock.store.workflows import Workflows

MISSING = "missing"


class ManyCalls(Asking):
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
        found = await self._ask(lambda on: Uniques(self.store).holders(on, keys))
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
