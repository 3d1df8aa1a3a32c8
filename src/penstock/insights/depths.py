"""How deep the queues are, as a gauge shows it."""

from __future__ import annotations

from msgspec import Struct

from penstock.job import State


class Depth(Struct, frozen=True, kw_only=True):
    """The jobs of a queue in one state."""

    queue: str
    state: State
    jobs: int
    waited: float | None
    """For how many seconds the oldest has been ready."""
