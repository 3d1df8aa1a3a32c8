"""Worker processes: the event loop of one process, and a group of processes under one parent."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any, TypeVar

from msgspec import Struct

from penstock.config import Stopping
from penstock.telemetry import Event
from penstock.worker.whereabouts import describe_place

T = TypeVar("T")

# A claim creates thousands of small objects that die with their jobs, without a cycle among them.
# With Python's own thresholds the collector scans them again and again, which takes a tenth of the
# time.
GC_THRESHOLDS = (100_000, 50, 100)
# How long tasks, and threads that they started, may take to end when the loop ends.
END_WAIT_S = 1.0
THREAD_NAME = "penstock to_thread"

# Where the tasks are that did not end when they were cancelled. Nothing can wait for them.
unended: list[str] = []


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as the main function of a whole process."""
    loop_runner = runner()
    threads = ThreadPoolExecutor(thread_name_prefix=THREAD_NAME)
    loop_runner.get_loop().set_default_executor(threads)
    try:
        return loop_runner.run(main)
    finally:
        end(loop_runner, threads)


def runner() -> asyncio.Runner:
    """Return a runner for a whole process, with rare garbage collection and uvloop if installed.

    A worker inside a user's program changes neither the loop nor the garbage collection.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        import uvloop
    except ImportError:  # It has no wheel for every platform, and none for Windows.
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def end(loop_runner: asyncio.Runner, threads: ThreadPoolExecutor) -> None:
    """End the loop without waiting for ever.

    `asyncio.Runner` waits for each task and thread, however long it takes. This function waits only
    for a while, and does not close a loop on which something still runs.
    """
    loop_runner.get_loop().run_until_complete(_end_tasks())
    threads.shutdown(wait=False, cancel_futures=True)
    ends_at = time.monotonic() + END_WAIT_S
    started = [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]
    for thread in started:
        thread.join(max(ends_at - time.monotonic(), 0.0))
    if not unended and not any(thread.is_alive() for thread in started):
        loop_runner.close()


async def _end_tasks() -> None:
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    if tasks := [task for task in asyncio.all_tasks() if task is not this]:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=END_WAIT_S)
    tasks.append(loop.create_task(loop.shutdown_asyncgens()))
    await asyncio.wait(tasks[-1:], timeout=END_WAIT_S)
    unended.extend(describe_place(task) for task in tasks if not task.done())


logger = logging.getLogger("penstock.fleet")

BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 30.0
# A process that started and lived this long resets the pause after its earlier ends.
HEALTHY_S = 30.0
STARTED = b"started\n"
WAITING = b"waiting\n"
# A signal ends a process even before it can handle signals.
CLEAN_EXIT_CODES = (0, -signal.SIGTERM)
# How much longer than its worker's limit a process may take before it ends by itself.
PROCESS_END_S = 20.0


class ProcessStarted(Event, frozen=True):
    number: int
    pid: int


class ProcessReady(Event, frozen=True):
    """The process has its lease."""

    number: int
    pid: int


class ProcessEnded(Event, frozen=True):
    """A worker process has ended. `cause` completes the sentence "worker process 2 …".

    `again_in` is None while the group stops. In that case, `is_clean` says whether the process
    ended as asked.
    """

    number: int
    pid: int
    cause: str
    again_in: float | None
    is_clean: bool = False


class ProcessNotCreated(Event, frozen=True):
    """The system could not create the process."""

    number: int
    error: str
    again_in: float


class NoneStarted(Event, frozen=True):
    """Every process ended before it had a lease or at least waited for one, so the group stops."""

    processes: int
    cause: str


class WorkerProcess(Struct):
    """A running worker process, and the channel on which it reports."""

    number: int
    process: asyncio.subprocess.Process
    channel: socket.socket
    began: float
    has_started: bool = False
    is_ready: bool = False

    @property
    def lived(self) -> float:
        return time.monotonic() - self.began


class ProcessGroup:
    """Runs a command in several processes, and restarts those that end.

    group = ProcessGroup([sys.executable, "-m", "penstock.cli", "work", "shop.jobs"], processes=4)
    loop.add_signal_handler(signal.SIGTERM, group.ask_to_stop)
    await group.run()

    Every process but the first gets `later_arguments` as well.
    """

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        *,
        later_arguments: Sequence[str] = (),
        stopping: Stopping | None = None,
        on_event: Callable[[Event], object] | None = None,
        output: IO[bytes] | None = None,
    ) -> None:
        self._command = command
        self._processes = processes
        self._later_arguments = later_arguments
        self._stopping_limits = stopping or Stopping()
        self._on_event = on_event or log_event
        self._output = output
        self._children: dict[int, WorkerProcess] = {}
        self._stopping = asyncio.Event()
        self._has_started = False
        self._never_started: set[int] = set()
        self._failed = False

    async def run(self) -> bool:
        """Keep the processes running until they are asked to stop and have ended.

        Return False if none of them could start, or if one did not end as asked.
        """
        async with asyncio.TaskGroup() as group:
            for number in range(1, self._processes + 1):
                group.create_task(self._keep_running(number))
        return not self._failed

    def ask_to_stop(self) -> None:
        """Ask every process to stop. A second call hurries them. For signal handlers."""
        self._stopping.set()
        for child in tuple(self._children.values()):
            _terminate(child.process)

    def stop_limit(self, signals: int) -> float:
        """Return how many seconds a stop may take after this many signals.

        Each process has a shorter limit of its own.
        """
        return self._stopping_limits.limit(signals=signals, has_pools=True) + PROCESS_END_S

    def last_words(self) -> None:
        """Kill the processes that have not ended, because this parent process is about to end.

        This is called in another thread.
        """
        for child in tuple(self._children.values()):
            logger.critical("Worker process %d did not end in time; it is killed.", child.number)
            with suppress(ProcessLookupError):
                os.kill(child.process.pid, signal.SIGKILL)

    async def _keep_running(self, number: int) -> None:
        backoff = BACKOFF_FIRST_S
        while not self._stopping.is_set():
            try:
                child = await self._start(number)
            except OSError as error:
                if not self._give_up(number, f"could not be created: {error}"):
                    self._on_event(ProcessNotCreated(number, str(error), backoff))
            else:
                code = await child.process.wait()
                self._forget(child)
                if child.has_started and child.lived > HEALTHY_S:
                    backoff = BACKOFF_FIRST_S
                self._report_end(child, code, backoff)
            await self._pause(backoff)
            backoff = min(backoff * 2, BACKOFF_MAX_S)

    async def _start(self, number: int) -> WorkerProcess:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    *(self._later_arguments if number > 1 else ()),
                    stdin=theirs.fileno(),
                    stdout=self._output,
                    stderr=self._output,
                    # Ctrl-C in a terminal reaches a whole process group: the parent alone passes it
                    # on.
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        child = WorkerProcess(number, process, ours, time.monotonic())
        self._children[number] = child
        asyncio.get_running_loop().add_reader(ours, self._read_status, child)
        self._on_event(ProcessStarted(number, process.pid))
        if self._stopping.is_set():
            _terminate(process)
        return child

    def _read_status(self, child: WorkerProcess) -> None:
        """Read whether a process has its lease, or waits for one."""
        data = b""
        with suppress(OSError):
            data = child.channel.recv(1024)
        if not data:
            asyncio.get_running_loop().remove_reader(child.channel)
            return
        child.has_started = self._has_started = True
        if STARTED in data and not child.is_ready:
            child.is_ready = True
            self._on_event(ProcessReady(child.number, child.process.pid))

    def _forget(self, child: WorkerProcess) -> None:
        self._read_status(child)  # It may have ended right after it started.
        asyncio.get_running_loop().remove_reader(child.channel)
        child.channel.close()
        del self._children[child.number]

    def _report_end(self, child: WorkerProcess, code: int, backoff: float) -> None:
        """Report how a process ended."""
        number, pid, cause = child.number, child.process.pid, describe_exit(code)
        if self._stopping.is_set():
            is_clean = code in CLEAN_EXIT_CODES
            self._failed = self._failed or not is_clean
            self._on_event(ProcessEnded(number, pid, cause, None, is_clean))
            return
        if child.has_started or not self._give_up(number, cause):
            self._on_event(ProcessEnded(number, pid, cause, backoff))

    def _give_up(self, number: int, cause: str) -> bool:
        """Stop the group if none of its processes could start. Return whether it stops."""
        self._never_started.add(number)
        if self._has_started or len(self._never_started) < self._processes:
            return False
        self._failed = True
        self._on_event(NoneStarted(self._processes, cause))
        self.ask_to_stop()
        return True

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def describe_exit(code: int) -> str:
    """Return what a return code means: "was killed by SIGKILL", "ended with exit code 1"."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def log_event(event: Event) -> None:
    match event:
        case ProcessStarted(number, pid):
            logger.info("Worker process %d has started, its pid is %d.", number, pid)
        case ProcessReady(number, pid):
            logger.debug("Worker process %d, pid %d, has its lease.", number, pid)
        case ProcessEnded(number, pid, cause, None, is_clean):
            if is_clean:
                logger.info("Worker process %d, pid %d, %s.", number, pid, cause)
            else:
                logger.error("Worker process %d, pid %d, %s during the stop.", number, pid, cause)
        case ProcessEnded(number, pid, cause, again_in):
            logger.error(
                "Worker process %d, pid %d, %s; it is started again in %.1f s.",
                number,
                pid,
                cause,
                again_in,
            )
        case ProcessNotCreated(number, error, again_in):
            logger.error(
                "Worker process %d could not be created (%s); this is tried again in %.1f s.",
                number,
                error,
                again_in,
            )
        case NoneStarted(processes, cause):
            logger.error(
                "None of the %d worker processes could start, so the command ends. The last one %s "
                "before it had a lease; its own messages say why.",
                processes,
                cause,
            )


def _terminate(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
