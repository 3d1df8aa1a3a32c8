"""Units of a budget that a handler reserves for a block, and the exception for too few units."""

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
    """Ends an attempt for which the budget has too few units. Do not catch it.

    The job runs again in `delay` seconds. This is no failure.
    """

    def __init__(self, delay: float, key: str) -> None:
        self.delay = delay
        self.key = key
        message = f"The job waits {delay:.1f} s for the budget {key!r}."
        super().__init__(Snooze(delay, f"budget:{key}"), message)


class BudgetSettlement(NamedTuple):
    """What becomes of a reservation at the end of its block.

    `refund` units go back to the budget; if it is negative, they are charged in addition.
    `close_for` is how many seconds the budget is closed for everybody; None leaves it open.
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
        """Report how many units the work has really cost. The last report counts.

        At the end of the block, units that were not needed go back, and missing ones are charged.
        """
        self._settled = _units(units)

    def close(self, wait: float | timedelta) -> None:
        """Close the budget for everybody, for `wait` seconds, because the service refuses requests.

        That happens at the end of the block. The reserved units go back, and the attempt ends: the
        job runs again after the wait, without a failure.
        """
        self._closed = seconds("wait", wait)

    def end(self, error: BaseException | None) -> BudgetSettlement:
        """Return what becomes of the reservation, after the block raised `error` or nothing."""
        close_for = self._closed if self._closed is not None else _refusal_wait(error)
        unsettled = self.units if close_for is None else 0.0
        spent = unsettled if self._settled is None else self._settled
        return BudgetSettlement(self.units - spent, close_for)


def _refusal_wait(error: BaseException | None) -> float | None:
    """Return for how many seconds the service refuses requests; None if it does not.

    If an inner budget has ended the attempt, its cause says so.
    """
    if isinstance(error, NotNow):
        error = error.__cause__
    return retry_after(error)


def _units(value: Any) -> float:
    if type(value) not in (int, float) or not (value >= 0 and isfinite(value)):
        raise BadArgument("units", value, "a number of units, 0 or more")
    return float(value)
