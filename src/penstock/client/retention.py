"""How long jobs that have ended are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from penstock.client.asking import Asking
from penstock.client.settings import Retention
from penstock.errors import BadArgument, DatabaseBusy
from penstock.job import FINAL, STATES, State
from penstock.store import Executor
from penstock.store.tuning import Tuning
from penstock.tasks.options import QUEUE_NAME, limit_key, matching, whole
from penstock.wording import span

LONGEST: Final = 400
LOCK_PAUSE_S: Final = 0.2
_LOCKED: Final = ("55P03", "40P01")

T = TypeVar("T")


class RetentionCalls(Asking):
    """The calls that say how long history is kept.

    A job's end decides for it: the rule of its queue and tenant, else its tenant's, else its
    queue's, else the one for all, else 7 days, or 30 if it failed. Up to 14 days are exact. A job
    that is kept for up to 90 goes on the Monday after them, one that is kept for longer on the
    first of the next month.
    """

    async def set_retention(
        self, state: State, days: int, *, queue: str = "", tenant: str = "", by: str | None = None
    ) -> Retention:
        """Keep jobs that end in a state for so many days: all, a queue's, a tenant's or of both.

            await app.set_retention("completed", 3)
            await app.set_retention("failed", 90, queue="documents")

        It holds for jobs that end from now on.
        """
        _check(state, queue, tenant)
        whole("days", days, 0, LONGEST)
        row = await self._ask_past_locks(
            lambda on: Tuning(self.store).set_retention(
                on, state, days, queue, tenant, self._actor(by)
            )
        )
        return Retention(**row)

    async def remove_retention(
        self, state: State, *, queue: str = "", tenant: str = "", by: str | None = None
    ) -> bool:
        """Take a rule away; the next wider one holds then. False if there was none."""
        _check(state, queue, tenant)
        return await self._ask_past_locks(
            lambda on: Tuning(self.store).remove_retention(
                on, state, queue, tenant, self._actor(by)
            )
        )

    async def retentions(self) -> Sequence[Retention]:
        """The rules that somebody has set, the general ones first."""
        return [Retention(**row) for row in await self._ask(Tuning(self.store).retentions)]

    async def _ask_past_locks(
        self,
        question: Callable[[Executor], Awaitable[T]],
        undone: str = "The retention was not changed",
        *,
        again: bool = True,
    ) -> T:
        """Ask again while a vacuum, say, keeps partitions from being made; name it at the end.

        `undone` says what did not come about then, `again` is as for other questions.

        A single try does not wait for such a lock: whoever waits for it makes settles wait.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._link.database.call_timeout
        while True:
            try:
                return await self._ask(question, again=again)
            except DatabaseBusy as error:
                if self._connection is not None or error.sqlstate not in _LOCKED:
                    raise
                if clock() + LOCK_PAUSE_S >= deadline:
                    raise await self._still_locked(error, undone) from error
            await asyncio.sleep(LOCK_PAUSE_S)

    async def _still_locked(self, error: DatabaseBusy, undone: str) -> DatabaseBusy:
        holders = await self._ask(Tuning(self.store).lock_holders)
        if not holders:
            return error
        told = "; ".join(
            f"process {each['pid']} ({each['who']}, for {span(each['seconds'] or 0)}) on "
            f"{each['table']}: {each['query']}"
            for each in holders
        )
        return DatabaseBusy(
            f"{undone}: it may need new partitions, and the history is locked by {told}. Try "
            "again when that has ended, or end it: "
            f"SELECT pg_cancel_backend({holders[0]['pid']});",
            sqlstate=error.sqlstate,
        )


def _check(state: Any, queue: Any, tenant: Any) -> None:
    if state not in FINAL:
        final = [each for each in STATES if each in FINAL]
        raise BadArgument("state", state, f"one of {', '.join(final)}")
    if queue != "":
        matching("queue", queue, QUEUE_NAME)
    if tenant != "":
        limit_key("tenant", tenant)
