"""A peer's process: `python -m benchmarks.peers NAME ROLE`, started by the comparison."""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys

import uvloop

from benchmarks.peers.roles import ROLES

# As Penstock's own worker process sets its collector: none should be slower for want of it.
GARBAGE = (100_000, 50, 100)


def main() -> None:
    name, role = sys.argv[1:]
    peer = importlib.import_module(f"benchmarks.peers.{name}")
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ROLES[role](peer))


main()
