"""A child that is not forked but a program of its own, which gets its files as numbers."""

from __future__ import annotations

import os
import sys

from penstock.isolation import child
from penstock.isolation.messages import read_plan


def main() -> None:
    parent, plan, channel, board, row, trace = map(int, sys.argv[1:])
    try:
        child.begin(parent, trace)
        told = read_plan(os.pread(plan, os.fstat(plan).st_size, 0))
        child.prepare(told)
        child.live(told, channel, board, row)
    except BaseException:
        child.confess(trace)
        sys.exit(1)
