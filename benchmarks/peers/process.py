"""The process that a peer's roles are played in."""

from __future__ import annotations

import gc
from asyncio import Runner
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

from benchmarks.peers.peer import Peer

# As Penstock's own worker process sets its collector: none should be slower for want of it.
GARBAGE = (100_000, 50, 100)


def play(peer: Peer, role: Callable[[Peer], Coroutine[Any, Any, None]]) -> None:
    """One role, to its end."""
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    with Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(role(peer))
