"""The supervisor: a process between a worker and its children.

It imports what the children need, once, and forks them from there: a child begins in milliseconds
and shares that memory. It has one thread and runs no job, so a fork finds no lock held, unlike one
of the worker with its threads, pools and loop. If what it imports has started threads or opened
connections, it starts children anew instead, which takes as long as the imports do.

It looks at what each child uses, kills those that are over, and tells the worker how each ended. If
the worker is gone, it ends with all children.
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
from penstock.isolation.limits_page import BUSY, GIVEN, TIMEOUT, LimitsPage, board_of
from penstock.isolation.protocol import (
    READ,
    Died,
    Frames,
    Kill,
    Settled,
    Start,
    encode,
    framed,
    read_orders,
    read_plan,
)
from penstock.isolation.system import (
    HAS_PROC,
    kill,
    program,
    reaped,
    resident,
    scratch,
    sockets,
    threads,
)

# How often the children are looked at, while one works and while none does.
LOOK: Final = 0.02 if HAS_PROC else 0.25
IDLE: Final = 0.1
# A look that comes so much too late was kept waiting: the processes were stopped or suspended.
LATE_LOOK: Final = 1.0
# How long a condemned child has to say where it is: on a busy machine its turn may be late. And how
# many times the memory that it is allowed it may hold meanwhile, should it not hear.
LAST_WORDS: Final = 1.0
TOO_FAR: Final = 2
LAST_LOOK: Final = 0.005
TRACE_LIMIT: Final = 16 * 1024
FDS: Final = 16
LATE: Final[dict[int, Cause]] = {BUSY: "time", TIMEOUT: "timeout", GIVEN: "late"}


@dataclass
class Ward:
    """A child of the supervisor."""

    number: int
    pid: int
    row: int
    trace: IO[bytes]
    cause: Cause | None = None
    resident: int = 0
    limit: float = 0.0
    began: float = 0.0
    dies_at: float = 0.0
    said: int = 0
    # When what it does began or was given, and how long it has stood still since.
    since: float = 0.0
    stood_still: float = 0.0


class Supervisor:
    """Starts children, watches them, kills them, tells of their ends."""

    def __init__(
        self,
        control: socket.socket,
        board: int,
        plan: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._board_file = board
        self._board: LimitsPage = board_of(board)
        self._frames = Frames()
        self._channels: deque[int] = deque()
        self._wards: dict[int, Ward] = {}
        self._plan_file = plan
        self._plan = read_plan(os.pread(plan, os.fstat(plan).st_size, 0))
        self._forks = True
        self._wake, woken = socket.socketpair()
        self._wake.setblocking(False)
        woken.setblocking(False)
        self._woken = woken
        self._pid = os.getpid()
        self._clock = clock
        self._look_due = float("inf")

    def run(self) -> NoReturn:
        """Serve until the worker is gone."""
        self._set_signals()
        try:
            self._settle()
            self._serve()
        except BaseException:
            traceback.print_exc()
        finally:
            self._end()

    def _set_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def _serve(self) -> NoReturn:
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(self._watch())]
                if self._control in ready:
                    self._hear()
                # Also if nothing was ready: a signal may be lost to a library that takes them all.
                if self._woken in ready or not ready:
                    self._bury()

    # The worker

    def _hear(self) -> None:
        channels: list[int] = []
        try:
            data, channels, _, _ = socket.recv_fds(self._control, READ, FDS)
        except OSError:
            data = b""  # The worker died and has not read all that it was told.
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
                    if ward := self._wards.get(number):
                        self._condemn(ward, "asked", 0.0)

    def _tell(self, news: Died | Settled) -> None:
        try:
            self._control.sendall(framed(encode(news)))
        except OSError:
            self._end()

    def _end(self) -> NoReturn:
        for ward in self._wards.values():
            kill(ward.pid)
        # Who waits for the supervisor's end may count on theirs.
        for ward in self._wards.values():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(ward.pid, 0)
        os._exit(0)

    # Children

    def _settle(self) -> None:
        trouble = None
        before = sockets()
        try:
            child.prepare(self._plan)
            child.find(self._plan.life)
        except BaseException:
            trouble = traceback.format_exc(limit=-20)
        # Imports may have set handlers of their own.
        self._set_signals()
        self._forks = threads() == 1 and sockets() <= before
        gc.collect()
        gc.freeze()
        self._tell(Settled(self._forks, trouble))

    def _start(self, number: int, row: int, channel: int) -> None:
        self._board.end(row)
        try:
            trace = scratch()
            pid = (
                self._fork(row, channel, trace) if self._forks else self._spawn(row, channel, trace)
            )
        except OSError as error:
            # No process or no file can be had now: that one child is not, and the others live.
            self._tell(Died(number, Death(status=1, trace=str(error))))
        else:
            self._wards[number] = Ward(number, pid, row, trace)
        finally:
            os.close(channel)

    def _fork(self, row: int, channel: int, trace: IO[bytes]) -> int:
        pid = os.fork()
        if pid == 0:
            self._become(row, channel, trace.fileno())
        return pid

    def _become(self, row: int, channel: int, trace: int) -> NoReturn:
        """Be a child from here on."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for ward in self._wards.values():
                ward.trace.close()
            for other in (self._control, self._wake, self._woken):
                other.close()
            os.close(self._plan_file)
            child.begin(self._pid, trace)
            child.live(self._plan, channel, self._board_file, row)
            code = 0
        except BaseException:
            child.confess(trace)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            os._exit(code)

    def _spawn(self, row: int, channel: int, trace: IO[bytes]) -> int:
        files = (self._plan_file, channel, self._board_file, trace.fileno())
        for file in files:
            os.set_inheritable(file, True)
        plan, channel, board, told = files
        given = (self._pid, plan, channel, board, row, told)
        try:
            return os.posix_spawn(
                sys.executable, program("penstock.isolation.child", *given), os.environ
            )
        finally:
            for file in files:
                os.set_inheritable(file, False)

    # The watch

    def _watch(self) -> float:
        """Look at every child; in how many seconds to look again."""
        now, pause = self._clock(), IDLE
        # After a pause of all (SIGSTOP, a suspended laptop) children get their time first.
        late = now - self._look_due
        late = late if late > LATE_LOOK else 0.0
        for ward in self._wards.values():
            if ward.cause is not None:
                if now >= ward.dies_at or _has_spoken(ward) or _goes_too_far(ward):
                    kill(ward.pid)
                pause = LAST_LOOK
            elif (allowed := self._board.read(ward.row)) is not None:
                pause = min(pause, LOOK)
                ward.began = allowed.began
                if allowed.since != ward.since:
                    ward.since, ward.stood_still = allowed.since, 0.0
                if allowed.since <= now - late:
                    ward.stood_still += late
                if allowed.is_late(now - ward.stood_still):
                    self._condemn(ward, LATE[allowed.state], allowed.seconds)
                elif allowed.memory and (held := resident(ward.pid)) > allowed.memory:
                    ward.resident = held
                    self._condemn(ward, "memory", allowed.memory)
        self._look_due = now + pause
        return pause

    def _condemn(self, ward: Ward, cause: Cause, limit: float) -> None:
        """Ask a child where it is, to kill it when it has said so, or in a moment."""
        if ward.cause is not None:
            return
        ward.cause, ward.limit = cause, limit
        with contextlib.suppress(ProcessLookupError):
            os.kill(ward.pid, child.WHERE)
        ward.dies_at = self._clock() + LAST_WORDS

    def _bury(self) -> None:
        """Tell of all children that have died."""
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        for ward in list(self._wards.values()):
            if (status := reaped(ward.pid)) is None:
                continue
            del self._wards[ward.number]
            if ward.cause in (None, "asked"):
                ward.began = self._board.began(ward.row)
            death = Death(
                status=os.waitstatus_to_exitcode(status),
                cause=ward.cause,
                resident=ward.resident,
                limit=ward.limit,
                began=ward.began,
                trace=_read(ward.trace),
            )
            ward.trace.close()
            self._tell(Died(ward.number, death))


def _has_spoken(ward: Ward) -> bool:
    """Whether all that it says is there: a report ends with a line's end, and grows no more."""
    said, ward.said = ward.said, os.fstat(ward.trace.fileno()).st_size
    return 0 < said == ward.said and _read(ward.trace).endswith("\n")


def _goes_too_far(ward: Ward) -> bool:
    return ward.cause == "memory" and resident(ward.pid) > TOO_FAR * ward.limit


def _read(trace: IO[bytes]) -> str:
    size = os.fstat(trace.fileno()).st_size
    return os.pread(trace.fileno(), min(size, TRACE_LIMIT), 0).decode(errors="replace")


def main() -> NoReturn:
    control, board, plan = map(int, sys.argv[1:])
    for file in (control, board, plan):
        os.set_inheritable(file, False)
    Supervisor(socket.socket(fileno=control), board, plan).run()
