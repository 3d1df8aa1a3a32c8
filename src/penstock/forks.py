"""Objects that begin anew in a forked child, where threads, loops and connections are the parent's.

class Portal:
    def __init__(self) -> None:
        self.begin_anew()
        begins_anew(self)

So are the handlers of signals: `keep_signals` keeps those of a process from what it forks.
"""

from __future__ import annotations

import os
import signal
import threading
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

# What ends a process that does not handle it.
ENDING = (signal.SIGTERM, signal.SIGINT)


class _Held(threading.local):
    """Which signals a thread let through before it held these back for a fork."""

    mask: set[signal.Signals] | None = None


_held = _Held()
_keeper: int | None = None


def keep_signals() -> None:
    """From now on SIGTERM and SIGINT end each child that this process forks, as they end any other.

    A fork copies the handlers of its parent, and the pipe through which Python tells an event loop
    of signals: without this, a signal to the child does not end it, but stops its parent.
    """
    global _keeper
    if _keeper is None:
        os.register_at_fork(before=_hold, after_in_parent=_let_through, after_in_child=_heed)
    _keeper = os.getpid()


def _hold() -> None:
    """Hold them back until the child has handlers of its own."""
    if os.getpid() == _keeper:
        _held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # type: ignore[assignment]


def _let_through() -> None:
    mask, _held.mask = _held.mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _heed() -> None:
    if _held.mask is not None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _let_through()
