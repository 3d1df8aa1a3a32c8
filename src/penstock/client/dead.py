"""Dead letters: look at jobs that have failed, bring them back, or let them go."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Final, TypeVar, Unpack

from penstock.client.arguments import whole
from penstock.client.asking import Asking
from penstock.client.enqueued import JobId, Page, id_of
from penstock.client.letters import (
    DeadFilter,
    DeadGroup,
    DeadSummary,
    Purged,
    Redriven,
    Which,
    after_of,
    place_of,
)
from penstock.errors import JobNotFound
from penstock.rate import per_second
from penstock.store import key_of
from penstock.store.failed import Dead, Place
from penstock.store.workflows import Workflows

T = TypeVar("T")

LONGEST_PAGE: Final = 1000
AT_ONCE: Final = 500
COUNTED: Final = 10_000
MOST: Final = 1_000_000_000
TOLD: Final = 10_000


class DeadCalls(Asking):
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
        jobs = await self._ask(lambda on: Dead(self.store).page(on, values, start, limit))
        if len(jobs) < limit:
            return Page(tuple(jobs), None)
        last = jobs[-1]
        assert last.finished_at is not None
        return Page(tuple(jobs), after_of(Place(last.finished_at, int(last.id))))

    async def dead_summary(
        self, *, among: int = COUNTED, **which: Unpack[DeadFilter]
    ) -> DeadSummary:
        """Count dead letters by task, reason and type of error, among so many of the latest."""
        whole("among", among, 1, 1_000_000)
        values = Which.of(which, self._tenant).values
        rows = await self._ask(lambda on: Dead(self.store).sum(on, values, among))
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
                    Dead(self.store).redrive,
                    ids=keys,
                    spacing=spacing,
                    start=start,
                    by=self._actor(by),
                    which=meant,
                ),
                again=False,
            )
            back = [row["due"] for row in rows if row["due"] is not None]
            _leave(left, {str(row["id"]): row["answer"] for row in rows if row["due"] is None})
            number, due = number + len(back), max(back, default=due)
            alone = [row["id"] for row in rows if row["due"] is not None]
            if alone:
                workflows += await self._ask(partial(Workflows(self.store).cut_off, ids=alone))
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
                partial(Dead(self.store).purge, ids=keys, by=self._actor(by), which=meant),
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
        after: Place | None = None
        while most:
            size = min(AT_ONCE, most)
            found, began = await self._ask(
                partial(Dead(self.store).find, which=which.values, after=after, limit=size)
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
