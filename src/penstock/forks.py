"""Resets objects in a forked child, where threads, loops and connections belong to the parent.

class Portal:
    def __init__(self) -> None:
        self.reset_after_fork()
        reset_in_forks(self)

Signal handlers belong to the parent, too: `reset_signals_in_forks` resets them.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Protocol
from weakref import WeakSet


class Resettable(Protocol):
    def reset_after_fork(self) -> None:
        """Return to the state in which nothing has been opened or started."""


_objects: WeakSet[Resettable] = WeakSet()
# What the objects held in the parent. The child must not collect it as garbage: a connection or a
# loop that is collected there would unregister files with the kernel that the parent still uses.
_kept_from_parent: list[object] = []


def reset_in_forks(resettable: Resettable) -> None:
    """Call `reset_after_fork` first of all in each child that this process forks."""
    _objects.add(resettable)


def _reset_all() -> None:
    for resettable in tuple(_objects):
        _kept_from_parent.append(vars(resettable).copy())
        resettable.reset_after_fork()


os.register_at_fork(after_in_child=_reset_all)

# They end a process that does not handle them.
TERMINATING_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Blocked(threading.local):
    """The signal mask that a thread had before it blocked the terminating signals for a fork."""

    mask: set[signal.Signals] | None = None


_blocked = _Blocked()
_resetting_pid: int | None = None


def reset_signals_in_forks() -> None:
    """From now on, let SIGTERM and SIGINT end each child that this process forks.

    A forked child has copies of its parent's signal handlers, and of the pipe through which Python
    passes signals to an event loop. Without this call, a signal to the child stops the parent
    instead.
    """
    global _resetting_pid
    if _resetting_pid is None:
        os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_reset)
    _resetting_pid = os.getpid()


def _block() -> None:
    """Block the signals until the child has its own handlers."""
    if os.getpid() == _resetting_pid:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, TERMINATING_SIGNALS)
        _blocked.mask = mask  # type: ignore[assignment]


def _unblock() -> None:
    mask, _blocked.mask = _blocked.mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _reset() -> None:
    if _blocked.mask is not None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _unblock()
