"""Convert outcomes to the arrays that the SQL function `settle` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec

from penstock.outcome import DONE, Transition

Answer = Literal["busy", "cancelled", "refused"]


class Settlement(NamedTuple):
    """The outcome of an attempt, to be written: its result, and the transition of the job."""

    id: int
    token: UUID
    transition: Transition
    result: str | None = None
    # Identifies the outcome to the caller. It is not sent to the database.
    source: Any = None
    # The handler's own transaction may have completed the job already: then this changes nothing.
    is_check: bool = False


def parameters(settlements: Sequence[Settlement], options: str) -> list[Any]:
    """Return the parameters of `settle`. For plain completions, most are None."""
    ids = [settlement.id for settlement in settlements]
    tokens = [settlement.token for settlement in settlements]
    results = [settlement.result for settlement in settlements]
    if not any(results):
        results = None  # type: ignore[assignment]
    if all(settlement.transition is DONE for settlement in settlements):
        return [ids, tokens, None, None, None, None, None, None, results, options]
    transitions = [settlement.transition for settlement in settlements]
    return [
        ids,
        tokens,
        [transition.state for transition in transitions],
        [transition.reason for transition in transitions],
        [transition.delay for transition in transitions],
        [int(transition.counts_failure) for transition in transitions],
        [transition.stuck for transition in transitions],
        [_error(transition) for transition in transitions],
        results,
        options,
    ]


def outcome_parameters(settlement: Settlement) -> list[Any]:
    """Return the parameters of `try_outcome`."""
    transition = settlement.transition
    return [settlement.result, _error(transition), transition.delay]


def _error(transition: Transition) -> str | None:
    return None if transition.error is None else msgspec.json.encode(transition.error).decode()
