"""What is left of children if their worker does not hear all, or cannot ask for all."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from penstock.isolation.client import SupervisorClient
from penstock.isolation.limits_page import MAX_CHILDREN
from penstock.isolation.protocol import ChildPlan
from tests.isolation.worker import gone, open_files, signed


async def test_supervisor_ends_children_its_worker_does_not_know(tmp_path: Path) -> None:
    plan = ChildPlan("tests.isolation.jobs:main_loop", str(tmp_path / "pid"), path=sys.path)
    supervisor = SupervisorClient(plan, lambda *_: None, lambda *_: None, lambda: None)
    supervisor.start()
    asyncio.get_running_loop().remove_reader(supervisor._control)
    with supervisor.start_child().channel:
        other = await signed(tmp_path / "pid")
        process, supervisor._process = supervisor._process, None
        assert process is not None
        supervisor._control.close()
        assert await asyncio.to_thread(process.wait, 60) == 0
        await gone(other)


async def test_failed_request_for_a_child_leaves_nothing_behind() -> None:
    supervisor = SupervisorClient(
        ChildPlan("nothing:at_all", None), lambda *_: None, lambda *_: None, lambda: None
    )
    supervisor._control, theirs = socket.socketpair()
    theirs.close()
    files = open_files()
    with supervisor._control, pytest.raises(BrokenPipeError):
        supervisor.start_child()
    assert open_files() == files - 1
    assert (supervisor._rows, len(supervisor._free)) == ({}, MAX_CHILDREN)
