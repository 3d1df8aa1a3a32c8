"""How long jobs that have ended are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.client.asking import Asking
from penstock.client.settings import Retention
from penstock.errors import ConfigError
from penstock.job import FINAL, STATES, State
from penstock.store.tuning import Tuning
from penstock.tasks.options import QUEUE_NAME, limit_key, matching, whole

LONGEST: Final = 400


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
        row = await self._ask(
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
        return await self._ask(
            lambda on: Tuning(self.store).remove_retention(
                on, state, queue, tenant, self._actor(by)
            )
        )

    async def retentions(self) -> Sequence[Retention]:
        """The rules that somebody has set, the general ones first."""
        return [Retention(**row) for row in await self._ask(Tuning(self.store).retentions)]


def _check(state: Any, queue: Any, tenant: Any) -> None:
    if state not in FINAL:
        final = [each for each in STATES if each in FINAL]
        raise ConfigError("state", state, f"one of {', '.join(final)}")
    if queue != "":
        matching("queue", queue, QUEUE_NAME)
    if tenant != "":
        limit_key("tenant", tenant)
