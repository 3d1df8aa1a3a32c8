"""Objects that begin anew in a forked child, where threads, loops and connections are the parent's.

class Portal:
    def __init__(self) -> None:
        self.begin_anew()
        begins_anew(self)
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class BeginsAnew(Protocol):
    def begin_anew(self) -> None:
        """Be as if nothing had been opened or started yet."""


_objects: WeakSet[BeginsAnew] = WeakSet()
# What the objects held in the parent. A child must not collect it: a connection or a loop that is
# collected here would unregister files with the kernel that the parent still uses.
_of_parent: list[object] = []


def begins_anew(each: BeginsAnew) -> None:
    """Call its `begin_anew` in each child that this process forks, before anything else there."""
    _objects.add(each)


def _begin_all() -> None:
    for each in tuple(_objects):
        _of_parent.append(vars(each).copy())
        each.begin_anew()


os.register_at_fork(after_in_child=_begin_all)
