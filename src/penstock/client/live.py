"""Subjects as they are now, many in one call: for those who watch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from penstock.client.asking import Asking
from penstock.client.present import (
    KINDS,
    Present,
    SubjectKind,
    batch_now,
    job_now,
    owner_now,
    queue_now,
)
from penstock.errors import BadArgument, JobNotFound
from penstock.insights import COUNTED_OFTEN, Insights, QueueInsight
from penstock.store import Executor, key_of
from penstock.store.live import Row, Watches

PRESENT_AT_ONCE: Final = 1000
LONGEST_RESULT: Final = 16 * 1024
NEWEST: Final = 10_000


class LiveCalls(Asking):
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
        watches = Watches(self.store)

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
            moment = await Watches(self.store).time(on)
            insights = Insights(self.store, on)
            return moment, await insights.queues_named(names, count_to=COUNTED_OFTEN)

        moment, queues = await self._ask(look)
        return {name: queue_now(queue, moment) for name, queue in queues.items()}

    async def _owners(self, kind: SubjectKind, names: Sequence[str]) -> dict[str, Present]:
        within = self._own
        if kind == "tenant":
            chosen = {"tenants": [name for name in names if within in (None, name)]}
        else:
            chosen = {"users": list(names)}
        rows = await self._ask(
            lambda on: Watches(self.store).owners(on, **chosen, within=within, newest=NEWEST)
        )
        return {row["name"]: owner_now(row, NEWEST) for row in rows}
