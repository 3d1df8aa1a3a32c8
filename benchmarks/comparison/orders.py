"""What a peer's process is asked to do."""

from __future__ import annotations

from typing import Any

import msgspec


class Orders(msgspec.Struct, frozen=True):
    """The first line that it reads; benchmarks.peers.roles acts on it."""

    url: str
    jobs: int = 0
    settings: dict[str, Any] = {}
    stamped: bool = False  # note when each handler began
    pace: float = 0.0  # calls a second; 0: as fast as they go
    warm_up: int = 0
