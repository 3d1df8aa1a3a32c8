"""The worker's connection to its supervisor: it asks for children and hears how they died."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing import spawn
from typing import Final, NamedTuple

from penstock.forks import reset_in_forks
from penstock.isolation.death import Death
from penstock.isolation.limits_page import MAX_CHILDREN, create_limits_page
from penstock.isolation.protocol import (
    ChildPlan,
    DeathReport,
    Frames,
    Kill,
    Prepared,
    Start,
    encode,
    frame_message,
    read_news,
    receive,
)
from penstock.isolation.system import module_command, open_scratch_file

logger = logging.getLogger("penstock.isolation")

EXIT_WAIT_S: Final = 5.0
MAIN_MODULE_KEYS: Final = ("init_main_from_name", "init_main_from_path")


class StartedChild(NamedTuple):
    """A child that the supervisor was asked to start.

    `channel` is the worker's end of the child's channel.
    """

    number: int
    channel: socket.socket


class SupervisorClient:
    """Starts one supervisor and talks to it, on the loop in which it was started."""

    def __init__(
        self,
        plan: ChildPlan,
        on_death: Callable[[int, Death], None],
        on_prepared: Callable[[str | None], None],
        on_supervisor_lost: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._on_death = on_death
        self._on_prepared = on_prepared
        self._on_supervisor_lost = on_supervisor_lost
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        self._numbers = 0
        self._rows: dict[int, int] = {}
        self._free = set(range(MAX_CHILDREN))
        self._process: subprocess.Popen[bytes] | None = None
        # Whether the supervisor has imported all that it needs, or has reported why it cannot.
        self.is_prepared = False

    def start(self) -> None:
        """Start the supervisor process. It reports through the callbacks later."""
        self.since = time.monotonic()
        with ExitStack() as undo, ExitStack() as passed_on:
            self._control, theirs = socket.socketpair()
            undo.callback(self._control.close)
            passed_on.callback(theirs.close)
            page_file, self._limits_page = create_limits_page()
            undo.callback(self._limits_page.close)
            passed_on.callback(os.close, page_file)
            plan = passed_on.enter_context(open_scratch_file())
            plan.write(encode(self._plan))
            files = (theirs.fileno(), page_file, plan.fileno())
            self._process = subprocess.Popen(
                module_command("penstock.isolation.supervisor", *files),
                pass_fds=files,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            undo.pop_all()
        self._control.setblocking(False)
        self._loop.add_reader(self._control, self._read)
        reset_in_forks(self)

    def reset_after_fork(self) -> None:
        """Close the socket in a process that a job has forked in the worker.

        When the worker ends, its socket is closed, and the supervisor notices that. If the forked
        process kept a copy open, the supervisor would not notice.
        """
        if self._process is not None:
            # The loop reads from the socket and would postpone its `close`.
            os.close(self._control.detach())

    def start_child(self) -> StartedChild:
        """Ask for a new child. Raise OSError if no socket can be made or the supervisor is gone."""
        ours, theirs = socket.socketpair()
        number, row = self._numbers + 1, self._free.pop()
        try:
            with theirs:
                self._send(Start(number, row), [theirs.fileno()])
        except OSError:
            ours.close()
            self._free.add(row)
            raise
        self._numbers, self._rows[number] = number, row
        ours.setblocking(False)
        return StartedChild(number, ours)

    def expect_start(self, number: int, seconds: float) -> None:
        """Have the child killed unless it begins its next job within these seconds."""
        self._limits_page.expect_start(self._rows[number], seconds)

    def began(self, number: int) -> float:
        """Return when a child began its job, by the system's monotonic clock.

        Return 0 if the child has not begun a job.
        """
        return self._limits_page.began(self._rows[number]) if number in self._rows else 0.0

    def kill(self, number: int) -> None:
        """Ask the supervisor to kill a child."""
        # A supervisor that does not read is stopped or gone, and its end is noticed elsewhere.
        if number in self._rows:
            with contextlib.suppress(OSError):
                self._send(Kill(number), [])

    def _send(self, order: Start | Kill, channels: list[int]) -> None:
        socket.send_fds(self._control, [frame_message(encode(order))], channels)

    def _read(self) -> None:
        if (data := receive(self._control)) is None:
            return
        if not data:
            self._loop.remove_reader(self._control)
            if self._process is not None:
                logger.error(
                    "The supervisor of the child processes has died, and all child processes "
                    "with it."
                )
                self._on_supervisor_lost()
            return
        for message in self._frames.feed(data):
            self._handle(message)

    def _handle(self, message: bytes) -> None:
        match read_news(message):
            case DeathReport(number, death):
                self._free.add(self._rows.pop(number))
                self._on_death(number, death)
            case Prepared(forks, trouble):
                self.is_prepared = True
                if not forks:
                    logger.info(
                        "Imported modules have started threads or opened connections, so child "
                        "processes are started as new programs instead of being forked."
                    )
                self._on_prepared(trouble)

    async def close(self) -> None:
        """Disconnect from the supervisor, and wait until it has ended with all children."""
        process, self._process = self._process, None
        if process is None:
            return
        self._loop.remove_reader(self._control)
        self._control.close()
        self._limits_page.close()
        await asyncio.to_thread(_wait_for_exit, process)


def main_module() -> dict[str, str]:
    """Return how a child can import this process's `__main__` module: by name or by path."""
    data = spawn.get_preparation_data("penstock")
    return {name: str(data[name]) for name in MAIN_MODULE_KEYS if name in data}


def _wait_for_exit(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(EXIT_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
