"""What is left of children if their worker does not hear all, or cannot ask for all."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from penstock.isolation.client import SupervisorClient
from penstock.isolation.limits_page import MOST
from penstock.isolation.protocol import Plan
from tests.isolation.worker import gone, open_files, signed


async def test_supervisor_ends_children_its_worker_does_not_know(tmp_path: Path) -> None:
    plan = Plan("tests.isolation.jobs:life", str(tmp_path / "pid"), path=sys.path)
    nursery = SupervisorClient(plan, lambda *_: None, lambda *_: None, lambda: None)
    nursery.start()
    asyncio.get_running_loop().remove_reader(nursery._control)
    with nursery.bear().channel:
        other = await signed(tmp_path / "pid")
        process, nursery._process = nursery._process, None
        assert process is not None
        nursery._control.close()
        assert await asyncio.to_thread(process.wait, 60) == 0
        await gone(other)


async def test_failed_request_for_a_child_leaves_nothing_behind() -> None:
    nursery = SupervisorClient(
        Plan("nothing:at_all", None), lambda *_: None, lambda *_: None, lambda: None
    )
    nursery._control, theirs = socket.socketpair()
    theirs.close()
    files = open_files()
    with nursery._control, pytest.raises(BrokenPipeError):
        nursery.bear()
    assert open_files() == files - 1
    assert (nursery._rows, len(nursery._free)) == ({}, MOST)
