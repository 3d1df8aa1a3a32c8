"""A peer's process: `python -m benchmarks.peers NAME ROLE`, started by the comparison."""

from __future__ import annotations

import importlib
import sys

from benchmarks.peers.process import play
from benchmarks.peers.roles import ROLES


def main() -> None:
    name, role = sys.argv[1:]
    play(importlib.import_module(f"benchmarks.peers.{name}"), ROLES[role])


main()
