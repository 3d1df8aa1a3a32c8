"""Outcomes as the arrays that the settle function takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec

from penstock.outcome import DONE, Transition

Answer = Literal["busy", "cancelled", "refused"]


class Settlement(NamedTuple):
    """One outcome to be written: which attempt, and what becomes of its job."""

    id: int
    token: UUID
    transition: Transition
    result: str | None = None
    # Whose outcome it is, for the one who handed it over; never sent.
    source: Any = None
    # The handler's own transaction may have completed the job: then this changes nothing.
    is_check: bool = False


def parameters(settlements: Sequence[Settlement], options: str) -> list[Any]:
    """The parameters of `settle`. For jobs simply completed hardly anything is sent."""
    ids = [one.id for one in settlements]
    tokens = [one.token for one in settlements]
    results = [one.result for one in settlements]
    if not any(results):
        results = None  # type: ignore[assignment]
    if all(one.transition is DONE for one in settlements):
        return [ids, tokens, None, None, None, None, None, None, results, options]
    transitions = [one.transition for one in settlements]
    return [
        ids,
        tokens,
        [one.state for one in transitions],
        [one.reason for one in transitions],
        [one.delay for one in transitions],
        [int(one.counts_failure) for one in transitions],
        [one.stuck for one in transitions],
        [_error(one) for one in transitions],
        results,
        options,
    ]


def outcome(settlement: Settlement) -> list[Any]:
    """The parameters of `try_outcome`."""
    transition = settlement.transition
    return [settlement.result, _error(transition), transition.delay]


def _error(transition: Transition) -> str | None:
    return None if transition.error is None else msgspec.json.encode(transition.error).decode()
