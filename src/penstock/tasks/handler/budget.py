"""A part of a budget that a handler holds for one block, and how an attempt ends that has none."""

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
    """Ends an attempt whose time has not come: its job runs again in `delay` seconds, uncounted."""

    def __init__(self, delay: float, key: str) -> None:
        self.delay = delay
        self.key = key
        told = f"The job waits {delay:.1f} s for the budget {key!r}."
        super().__init__(Snooze(delay, f"budget:{key}"), told)


class Ending(NamedTuple):
    """What becomes of a reservation: units that go back (below 0: are charged as well), and for
    how many seconds the key is closed to everybody, if it is."""

    gives_back: float
    closes: float | None


class Budget:
    """Units that are reserved for one block of a handler.

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
        """Say what it has really cost. At the end of the block the rest goes back, or what was too
        little is charged. Said again, as the cost becomes known, the last word counts."""
        self._settled = _units(units)

    def close(self, wait: float | timedelta) -> None:
        """The service refuses: at the end of the block nobody gets any more for so many seconds,
        what was reserved goes back, and the attempt ends as a snooze until then."""
        self._closed = seconds("wait", wait)

    def end(self, error: BaseException | None) -> Ending:
        """What becomes of the reservation at the end of its block."""
        closes = self._closed if self._closed is not None else _refusal(error)
        unsettled = self.units if closes is None else 0.0
        spent = unsettled if self._settled is None else self._settled
        return Ending(self.units - spent, closes)


def _refusal(error: BaseException | None) -> float | None:
    """How long the service refuses; also behind a budget inside that has ended the attempt."""
    if isinstance(error, NotNow):
        error = error.__cause__
    return retry_after(error)


def _units(value: Any) -> float:
    if type(value) not in (int, float) or not (value >= 0 and isfinite(value)):
        raise BadArgument("units", value, "a number of units, 0 or more")
    return float(value)
