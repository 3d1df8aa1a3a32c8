"""Worker processes under one parent: what it does when they end, asked or unasked."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from penstock.telemetry import Event
from penstock.worker.processes import (
    NoneStarted,
    ProcessEnded,
    ProcessGroup,
    ProcessNotCreated,
    ProcessReady,
    ProcessStarted,
)
from tests.fixtures.until import until

E = TypeVar("E", bound=Event)

HAS_ITS_LEASE = "os.write(0, b'started\\n')\n"
# As a worker: it ends with 0 when it is asked to, or when its parent has gone.
WORKS = (
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
    f"{HAS_ITS_LEASE}signal.sigwait([signal.SIGTERM])\n"
)


class Parent:
    """A group of Python programs, and the events that it reports."""

    def __init__(
        self, program: str, processes: int, *arguments: str, python: str = sys.executable
    ) -> None:
        command = [python, "-I", "-S", "-c", f"import os, signal, sys\n{program}", *arguments]
        self.events: list[Event] = []
        self.group = ProcessGroup(command, processes, on_event=self.events.append)

    def told(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def tells(self, kind: type[Event], count: int = 1) -> None:
        await until(lambda: len(self.told(kind)) >= count, 60, what=f"{count} {kind.__name__}")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[bool]]:
        task = asyncio.create_task(self.group.run())
        try:
            yield task
        finally:
            self.group.ask_to_stop()
            await task


@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        ("os._exit(0)", "ended with exit code 0"),
        ("os._exit(1)", "ended with exit code 1"),
        ("os._exit(2)", "ended with exit code 2"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
    ],
)
async def test_process_with_a_lease_is_replaced_however_it_ends(
    tmp_path: Path, ending: str, cause: str
) -> None:
    flag = tmp_path / "ended"
    ends_once = (
        f"{HAS_ITS_LEASE}if not os.path.exists(sys.argv[1]):\n"
        f"    open(sys.argv[1], 'w').close()\n    {ending}\n{WORKS}"
    )
    parent = Parent(ends_once, 1, str(flag))
    async with parent.running() as running:
        await parent.tells(ProcessReady, 2)
        parent.group.ask_to_stop()
        assert await running is True
    unasked, asked = parent.told(ProcessEnded)
    assert (unasked.cause, unasked.again_in) == (cause, 0.5)
    assert asked.again_in is None


async def test_pauses_grow_while_a_process_ends_again_and_again() -> None:
    parent = Parent(f"{HAS_ITS_LEASE}os._exit(0)", 1)
    async with parent.running():
        await parent.tells(ProcessEnded, 3)
    assert [event.again_in for event in parent.told(ProcessEnded)][:3] == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("ending", ["os._exit(1)", "os._exit(0)", "os.abort()"])
async def test_processes_that_all_end_without_a_lease_are_given_up(ending: str) -> None:
    parent = Parent(ending, 3)
    assert await asyncio.wait_for(parent.group.run(), 60) is False
    [event] = parent.told(NoneStarted)
    assert event.processes == 3


async def test_processes_that_cannot_be_created_are_given_up() -> None:
    parent = Parent("", 2, python="/nowhere/python")
    assert await asyncio.wait_for(parent.group.run(), 60) is False
    assert len(parent.told(ProcessNotCreated)) == 1
    assert "No such file" in parent.told(NoneStarted)[0].cause


async def test_process_that_cannot_start_beside_another_is_tried_again(tmp_path: Path) -> None:
    """As when the database has too few connections for all of them."""
    place = tmp_path / "taken"
    only_one = (
        "try: os.close(os.open(sys.argv[1], os.O_CREAT | os.O_EXCL))\n"
        f"except FileExistsError: os._exit(1)\n{WORKS}"
    )
    parent = Parent(only_one, 2, str(place))
    async with parent.running() as running:
        await parent.tells(ProcessReady)
        await parent.tells(ProcessEnded, 2)
        place.unlink()
        await parent.tells(ProcessReady, 2)
        assert not running.done()
    assert not parent.told(NoneStarted)


async def test_process_waiting_for_the_database_is_not_given_up(tmp_path: Path) -> None:
    """One ends, and its successor waits; then the other ends."""
    program = f"""
import time
def taken(name):
    try: return os.close(os.open(os.path.join(sys.argv[1], name), os.O_CREAT | os.O_EXCL))
    except FileExistsError: return True
if not taken("first"): os._exit(1)
if not taken("second"):
    while not os.path.exists(os.path.join(sys.argv[1], "waits")): time.sleep(0.01)
    os._exit(1)
if not taken("third"):
    os.write(0, b"waiting\\n")
    taken("waits")
    signal.sigwait([signal.SIGTERM])
    os._exit(0)
{WORKS}"""
    parent = Parent(program, 2, str(tmp_path))
    async with parent.running() as running:
        await parent.tells(ProcessReady)
        parent.group.ask_to_stop()
        assert await running is True
    assert len(parent.told(ProcessReady)) == 1
    assert not parent.told(NoneStarted)


@pytest.mark.parametrize(
    ("ending", "is_clean"), [("", True), ("os._exit(0)", True), ("os._exit(3)", False)]
)
async def test_stop_is_clean_if_every_process_ends_as_asked(ending: str, is_clean: bool) -> None:
    parent = Parent(f"{WORKS}{ending}", 2)
    async with parent.running() as running:
        await parent.tells(ProcessReady, 2)
        parent.group.ask_to_stop()
        assert await running is is_clean
    assert [event.is_clean for event in parent.told(ProcessEnded)] == [is_clean] * 2


async def test_process_killed_before_it_handles_signals_has_stopped() -> None:
    parent = Parent("signal.pause()", 1)
    async with parent.running() as running:
        await parent.tells(ProcessStarted)
        parent.group.ask_to_stop()
        assert await running is True
