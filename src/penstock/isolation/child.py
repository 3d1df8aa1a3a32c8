"""What a child process does before its main loop, forked or started as a program of its own."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from multiprocessing import spawn
from typing import Any, Final

from penstock.forks import TERMINATING_SIGNALS, reset_signals_in_forks
from penstock.isolation.limits_page import board_of
from penstock.isolation.protocol import Plan, read_plan

# With this a supervisor asks where a child is, before it kills it.
WHERE: Final = signal.SIGUSR2
PR_SET_PDEATHSIG: Final = 1
# If the system has no memory left, a child goes before those who look after it.
EXPENDABLE: Final = b"500"
# Whether this process imports a program for its children: then it must not begin to work itself.
is_preparing = False


def prepare(plan: Plan) -> None:
    """Import all that the plan names."""
    global is_preparing
    is_preparing = True
    try:
        _import(plan)
    finally:
        is_preparing = False


def _import(plan: Plan) -> None:
    sys.path[:] = plan.path
    for name in plan.before:
        find(name)()
    if plan.main:
        # As for the children of `multiprocessing`: the script, under another name than `__main__`.
        spawn.prepare(plan.main)
    for module in plan.modules:
        import_module(module)


def find(place: str) -> Any:
    """What `module:qualified.name` stands for."""
    module, _, path = place.partition(":")
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def begin(parent: int, trace: int) -> None:
    """Be a process of its own, which goes with its parent."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):
            _write("/proc/self/oom_score_adj", EXPENDABLE)
    if os.getppid() != parent:
        os._exit(0)
    # A signal to all of a service is its worker's to act on. A handler, and not SIG_IGN, which
    # programs that a job starts would inherit.
    for number in TERMINATING_SIGNALS:
        signal.signal(number, _ignore)
    reset_signals_in_forks()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for stream in (sys.stdout, sys.stderr):
        # What is printed before a crash must not be lost with it. Imports may have put something
        # else in a stream's place.
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(line_buffering=True)
    faulthandler.enable(trace)
    faulthandler.register(WHERE, trace)


def live(plan: Plan, channel: int, board: int, row: int) -> None:
    """Live the life of the plan, and end with it."""
    life: Callable[..., None] = find(plan.life)
    life(socket.socket(fileno=channel), board_of(board), row, plan.given)


def confess(trace: int) -> None:
    """Say what error ends this process, also where its supervisor finds it."""
    told = traceback.format_exc()
    with contextlib.suppress(OSError):
        os.write(trace, told.encode(errors="replace"))
    with contextlib.suppress(Exception):
        sys.stderr.write(told)


def _ignore(number: int, frame: object) -> None: ...


def _write(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def main() -> None:
    parent, plan, channel, board, row, trace = map(int, sys.argv[1:])
    try:
        begin(parent, trace)
        told = read_plan(os.pread(plan, os.fstat(plan).st_size, 0))
        prepare(told)
        live(told, channel, board, row)
    except BaseException:
        confess(trace)
        sys.exit(1)
