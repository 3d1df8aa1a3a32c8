"""Budgets: a handler reserves units for a block, and runs again later if there are too few."""

from __future__ import annotations

from datetime import timedelta
from math import isfinite
from typing import Any, NamedTuple

from penstock.errors import BadArgument
from penstock.outcome import Snooze
from penstock.tasks.handler.failure import retry_after
from penstock.tasks.handler.waits import Suspended
from penstock.tasks.options import limit_key, seconds


class NotNow(Suspended):
    """Raised in a handler to end its attempt, because a budget is short of units. Do not catch it.

    The job runs again after `delay` seconds. The attempt does not count as a failure.
    """

    def __init__(self, delay: float, key: str) -> None:
        self.delay = delay
        self.key = key
        message = f"The job waits {delay:.1f} s for the budget {key!r}."
        super().__init__(Snooze(delay, f"budget:{key}"), message)


class BudgetSettlement(NamedTuple):
    """How to settle a reservation when its block ends.

    `refund` is how many reserved units go back to the budget. If `refund` is negative, that many
    units are charged in addition. `close_for` is for how many seconds to close the budget for all
    jobs, or None to leave it open.
    """

    refund: float
    close_for: float | None


class Budget:
    """Units of a budget that are reserved for one block of a handler.

    async with ctx.budget("openai", units=1200) as budget:
        answer = await client.responses.create(…)
        budget.settle(answer.usage.total_tokens)
    """

    __slots__ = ("_closed", "_settled", "key", "units")

    def __init__(self, key: str, units: float) -> None:
        self.key = limit_key("key", key)
        self.units = _units(units)
        self._settled: float | None = None
        self._closed: float | None = None

    def settle(self, units: float) -> None:
        """Report how many units the work has really used. If you call this again, the last counts.

        When the block ends, unused units go back to the budget, and units that were used beyond
        the reservation are charged.
        """
        self._settled = _units(units)

    def close(self, wait: float | timedelta) -> None:
        """Close the budget for all jobs for `wait` seconds, because the service refuses requests.

        The budget closes when the block ends. The reserved units go back, except those that were
        reported with `settle`. The attempt ends without a failure, and the job runs again after
        the wait.
        """
        self._closed = seconds("wait", wait)

    def end(self, error: BaseException | None) -> BudgetSettlement:
        """Return how to settle the reservation. `error` is what the block raised, or None."""
        close_for = self._closed if self._closed is not None else _refusal_wait(error)
        unsettled = self.units if close_for is None else 0.0
        spent = unsettled if self._settled is None else self._settled
        return BudgetSettlement(self.units - spent, close_for)


def _refusal_wait(error: BaseException | None) -> float | None:
    """Return for how many seconds the service refuses requests, or None if it does not.

    If an inner budget has ended the attempt with NotNow, the service's error is the cause of that
    NotNow.
    """
    if isinstance(error, NotNow):
        error = error.__cause__
    return retry_after(error)


def _units(value: Any) -> float:
    if type(value) not in (int, float) or not (value >= 0 and isfinite(value)):
        raise BadArgument("units", value, "a number of units, 0 or more")
    return float(value)
