"""A process of one side: `python -m benchmarks.before_after.runner ADAPTER SCENE ROLE`.

It is started by the driver, takes orders and tells how far it is as the process of a peer does.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial

import psutil

from benchmarks.before_after.adapters import peer_of
from benchmarks.peers.process import play
from benchmarks.peers.roles import ROLES, work
from benchmarks.peers.runs import cpu_seconds


def main() -> None:
    adapter, scene, role = sys.argv[1:]
    measured = partial(work, cpu_seconds=with_living_children)
    play(peer_of(adapter, scene), measured if role == "work" else ROLES[role])


def with_living_children() -> float:
    """Of this process and all below it, those too that have not ended."""
    return cpu_seconds() + sum(map(_spent, psutil.Process().children(recursive=True)))


def _spent(child: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = child.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


# Child processes of jobs import the program of their worker.
if __name__ == "__main__":
    main()
