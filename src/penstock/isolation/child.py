"""Prepares a child process, forked or spawned, before it enters its main loop."""

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
from penstock.isolation.limits_page import open_limits_page
from penstock.isolation.protocol import ChildPlan, read_plan

# The supervisor sends this signal to get a child's stack before it kills the child.
TRACE_SIGNAL: Final = signal.SIGUSR2
PR_SET_PDEATHSIG: Final = 1
# When the system runs out of memory, it kills a child before its worker or supervisor.
OOM_SCORE: Final = b"500"
# Whether this process is importing a program for its children: it must not start a worker then.
is_preparing = False


def prepare(plan: ChildPlan) -> None:
    """Import every module that the plan names."""
    global is_preparing
    is_preparing = True
    try:
        _import_plan(plan)
    finally:
        is_preparing = False


def _import_plan(plan: ChildPlan) -> None:
    sys.path[:] = plan.path
    for name in plan.before:
        find(name)()
    if plan.main:
        # Like the children of `multiprocessing`, import the script under another name than
        # `__main__`.
        spawn.prepare(plan.main)
    for module in plan.modules:
        import_module(module)


def find(place: str) -> Any:
    """Import and return the object at `module:qualified.name`."""
    module, _, path = place.partition(":")
    target: Any = import_module(module)
    for name in path.split("."):
        target = getattr(target, name)
    return target


def begin(parent: int, trace: int) -> None:
    """Move this process into a session of its own, and have it end with its parent."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):
            _write("/proc/self/oom_score_adj", OOM_SCORE)
    if os.getppid() != parent:
        os._exit(0)
    # A signal to the whole service is for its worker to act on. This installs a handler instead of
    # SIG_IGN, which programs that a job starts would inherit.
    for number in TERMINATING_SIGNALS:
        signal.signal(number, _ignore)
    reset_signals_in_forks()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for stream in (sys.stdout, sys.stderr):
        # Output printed before a crash must not be lost. Imports may have replaced a stream with
        # another object.
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(line_buffering=True)
    faulthandler.enable(trace)
    faulthandler.register(TRACE_SIGNAL, trace)


def run_main_loop(plan: ChildPlan, channel: int, limits_page: int, row: int) -> None:
    """Run the plan's main loop, and return when it ends."""
    main_loop: Callable[..., None] = find(plan.main_loop)
    main_loop(socket.socket(fileno=channel), open_limits_page(limits_page), row, plan.settings)


def report_crash(trace: int) -> None:
    """Write the current exception to stderr, and to the trace file that the supervisor reads."""
    report = traceback.format_exc()
    with contextlib.suppress(OSError):
        os.write(trace, report.encode(errors="replace"))
    with contextlib.suppress(Exception):
        sys.stderr.write(report)


def _ignore(number: int, frame: object) -> None: ...


def _write(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def main() -> None:
    parent, plan_file, channel, limits_page, row, trace = map(int, sys.argv[1:])
    try:
        begin(parent, trace)
        plan = read_plan(os.pread(plan_file, os.fstat(plan_file).st_size, 0))
        prepare(plan)
        run_main_loop(plan, channel, limits_page, row)
    except BaseException:
        report_crash(trace)
        sys.exit(1)
