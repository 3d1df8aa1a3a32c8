"""The supervisor: a process between a worker and its children.

It imports what the children need once and forks them from there, so a child starts in milliseconds
and shares that memory. It has one thread and runs no job, so a fork finds no lock held, unlike a
fork of the worker with its threads, pools and loop. If the imports have started threads or opened
connections, it spawns children as new programs instead, which takes as long as the imports do.

It checks what each child uses, kills those that exceed their limits, and reports each death to the
worker. When the worker is gone, the supervisor ends with all children.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Final, NoReturn

from penstock.isolation import child
from penstock.isolation.death import Cause, Death
from penstock.isolation.limits_page import (
    ASSIGNED,
    RUNNING,
    RUNNING_TIMED,
    LimitsPage,
    open_limits_page,
)
from penstock.isolation.protocol import (
    READ_BYTES,
    DeathReport,
    Frames,
    Kill,
    Prepared,
    Start,
    encode,
    frame_message,
    read_orders,
    read_plan,
)
from penstock.isolation.system import (
    HAS_PROC,
    count_threads,
    kill,
    list_sockets,
    module_command,
    open_scratch_file,
    reap,
    resident_bytes,
)

# The seconds between two checks of the children, while one works and while none does.
CHECK_INTERVAL_S: Final = 0.02 if HAS_PROC else 0.25
IDLE_CHECK_INTERVAL_S: Final = 0.1
# A check that is this late was delayed because the processes were stopped or suspended.
LATE_CHECK_S: Final = 1.0
# A child that is to be killed has this long to write its stack: on a busy machine it may be
# scheduled late. Meanwhile it may exceed its memory limit by this factor, in case it ignores the
# signal.
TRACE_WAIT_S: Final = 1.0
MEMORY_KILL_FACTOR: Final = 2
TRACE_CHECK_INTERVAL_S: Final = 0.005
MAX_TRACE_BYTES: Final = 16 * 1024
MAX_FDS_PER_MESSAGE: Final = 16
CAUSE_OF_STATE: Final[dict[int, Cause]] = {
    RUNNING: "time",
    RUNNING_TIMED: "timeout",
    ASSIGNED: "late",
}


@dataclass
class WatchedChild:
    """A child process and what the supervisor knows of it."""

    number: int
    pid: int
    row: int
    trace: IO[bytes]
    cause: Cause | None = None
    resident: int = 0
    limit: float = 0.0
    began: float = 0.0
    kill_at: float = 0.0
    trace_size: int = 0
    # When its job began or was assigned, and how long all processes have been stopped since.
    since: float = 0.0
    paused_s: float = 0.0


class Supervisor:
    """Starts children, watches them, kills them, and reports their deaths."""

    def __init__(
        self,
        control: socket.socket,
        limits_file: int,
        plan: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._limits_file = limits_file
        self._limits_page: LimitsPage = open_limits_page(limits_file)
        self._frames = Frames()
        self._channels: deque[int] = deque()
        self._children: dict[int, WatchedChild] = {}
        self._plan_file = plan
        self._plan = read_plan(os.pread(plan, os.fstat(plan).st_size, 0))
        self._forks = True
        self._wake, woken = socket.socketpair()
        self._wake.setblocking(False)
        woken.setblocking(False)
        self._woken = woken
        self._pid = os.getpid()
        self._clock = clock
        self._next_check_at = float("inf")

    def run(self) -> NoReturn:
        """Serve the worker until it is gone."""
        self._set_signals()
        try:
            self._prepare()
            self._serve_worker()
        except BaseException:
            traceback.print_exc()
        finally:
            self._end()

    def _set_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _serve_worker(self) -> NoReturn:
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(self._check_children())]
                if self._control in ready:
                    self._read_orders()
                # Check even if nothing was ready: a library may have taken the signal away.
                if self._woken in ready or not ready:
                    self._report_deaths()

    # The worker

    def _read_orders(self) -> None:
        channels: list[int] = []
        try:
            data, channels, _, _ = socket.recv_fds(self._control, READ_BYTES, MAX_FDS_PER_MESSAGE)
        except OSError:
            data = b""  # The worker died before it had read every report.
        if not data:
            self._end()
        for channel in channels:
            os.set_inheritable(channel, False)
            self._channels.append(channel)
        for message in self._frames.feed(data):
            match read_orders(message):
                case Start(number, row):
                    self._start(number, row, self._channels.popleft())
                case Kill(number):
                    if watched := self._children.get(number):
                        self._start_kill(watched, "asked", 0.0)

    def _report(self, news: DeathReport | Prepared) -> None:
        try:
            self._control.sendall(frame_message(encode(news)))
        except OSError:
            self._end()

    def _end(self) -> NoReturn:
        for watched in self._children.values():
            kill(watched.pid)
        # Whoever waits for the supervisor's end may rely on the children being gone.
        for watched in self._children.values():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(watched.pid, 0)
        os._exit(0)

    # Children

    def _prepare(self) -> None:
        problem = None
        before = list_sockets()
        try:
            child.prepare(self._plan)
            child.find(self._plan.main_loop)
        except BaseException:
            problem = traceback.format_exc(limit=-20)
        # Imports may have installed signal handlers of their own.
        self._set_signals()
        self._forks = count_threads() == 1 and list_sockets() <= before
        gc.collect()
        gc.freeze()
        self._report(Prepared(self._forks, problem))

    def _start(self, number: int, row: int, channel: int) -> None:
        self._limits_page.end(row)
        try:
            trace = open_scratch_file()
            pid = (
                self._fork(row, channel, trace) if self._forks else self._spawn(row, channel, trace)
            )
        except OSError as error:
            # The system has no process or file left: this child fails, and the others live.
            self._report(DeathReport(number, Death(status=1, trace=str(error))))
        else:
            self._children[number] = WatchedChild(number, pid, row, trace)
        finally:
            os.close(channel)

    def _fork(self, row: int, channel: int, trace: IO[bytes]) -> int:
        pid = os.fork()
        if pid == 0:
            self._become(row, channel, trace.fileno())
        return pid

    def _become(self, row: int, channel: int, trace: int) -> NoReturn:
        """Turn this forked process into a child. It never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for watched in self._children.values():
                watched.trace.close()
            for other in (self._control, self._wake, self._woken):
                other.close()
            os.close(self._plan_file)
            child.begin(self._pid, trace)
            child.run_main_loop(self._plan, channel, self._limits_file, row)
            code = 0
        except BaseException:
            child.report_crash(trace)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(code)

    def _spawn(self, row: int, channel: int, trace: IO[bytes]) -> int:
        files = (self._plan_file, channel, self._limits_file, trace.fileno())
        for file in files:
            os.set_inheritable(file, True)
        plan, channel, limits_page, trace_file = files
        arguments = (self._pid, plan, channel, limits_page, row, trace_file)
        try:
            return os.posix_spawn(
                sys.executable, module_command("penstock.isolation.child", *arguments), os.environ
            )
        finally:
            for file in files:
                os.set_inheritable(file, False)

    # Limits

    def _check_children(self) -> float:
        """Check the limits of every child, and return the seconds until the next check."""
        now, pause = self._clock(), IDLE_CHECK_INTERVAL_S
        # After a pause of all processes (SIGSTOP, a suspended laptop) children get their lost time
        # back.
        late = now - self._next_check_at
        late = late if late > LATE_CHECK_S else 0.0
        for watched in self._children.values():
            if watched.cause is not None:
                if (
                    now >= watched.kill_at
                    or _is_trace_complete(watched)
                    or _is_far_over_memory(watched)
                ):
                    kill(watched.pid)
                pause = TRACE_CHECK_INTERVAL_S
            elif (limits := self._limits_page.read(watched.row)) is not None:
                pause = min(pause, CHECK_INTERVAL_S)
                watched.began = limits.began
                if limits.since != watched.since:
                    watched.since, watched.paused_s = limits.since, 0.0
                if limits.since <= now - late:
                    watched.paused_s += late
                if limits.is_over_time(now - watched.paused_s):
                    self._start_kill(watched, CAUSE_OF_STATE[limits.state], limits.seconds)
                elif limits.memory and (resident := resident_bytes(watched.pid)) > limits.memory:
                    watched.resident = resident
                    self._start_kill(watched, "memory", limits.memory)
        self._next_check_at = now + pause
        return pause

    def _start_kill(self, watched: WatchedChild, cause: Cause, limit: float) -> None:
        """Ask a child to write its stack. The child is killed after that, or after a moment."""
        if watched.cause is not None:
            return
        watched.cause, watched.limit = cause, limit
        with contextlib.suppress(ProcessLookupError):
            os.kill(watched.pid, child.TRACE_SIGNAL)
        watched.kill_at = self._clock() + TRACE_WAIT_S

    def _report_deaths(self) -> None:
        """Report every child that has died."""
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        for watched in list(self._children.values()):
            if (status := reap(watched.pid)) is None:
                continue
            del self._children[watched.number]
            if watched.cause in (None, "asked"):
                watched.began = self._limits_page.began(watched.row)
            death = Death(
                status=os.waitstatus_to_exitcode(status),
                cause=watched.cause,
                resident=watched.resident,
                limit=watched.limit,
                began=watched.began,
                trace=_read(watched.trace),
            )
            watched.trace.close()
            self._report(DeathReport(watched.number, death))


def _is_trace_complete(watched: WatchedChild) -> bool:
    """Return whether the stack is written: it ends with a newline, and has stopped growing."""
    trace_size, watched.trace_size = watched.trace_size, os.fstat(watched.trace.fileno()).st_size
    return 0 < trace_size == watched.trace_size and _read(watched.trace).endswith("\n")


def _is_far_over_memory(watched: WatchedChild) -> bool:
    return (
        watched.cause == "memory"
        and resident_bytes(watched.pid) > MEMORY_KILL_FACTOR * watched.limit
    )


def _read(trace: IO[bytes]) -> str:
    size = os.fstat(trace.fileno()).st_size
    return os.pread(trace.fileno(), min(size, MAX_TRACE_BYTES), 0).decode(errors="replace")


def main() -> NoReturn:
    control, limits_file, plan = map(int, sys.argv[1:])
    for file in (control, limits_file, plan):
        os.set_inheritable(file, False)
    Supervisor(socket.socket(fileno=control), limits_file, plan).run()
