"""How a supervisor judges the time that its children take, by a clock of the test's."""

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from penstock.isolation.limits_page import RUNNING, ChildLimits, create_limits_page
from penstock.isolation.protocol import ChildPlan, encode
from penstock.isolation.supervisor import Supervisor, WatchedChild
from penstock.isolation.system import open_scratch_file


class Watch:
    """A supervisor with one child, whose job may take three seconds."""

    def __init__(self, supervisor: Supervisor, watched: WatchedChild) -> None:
        self._supervisor = supervisor
        self._watched = watched
        self.now = 100.0

    def begins(self, since: float) -> None:
        self._supervisor._limits_page.begin(self._watched.row, ChildLimits(since, 3.0, 0, RUNNING))

    def look(self, at: float) -> bool:
        """Look once; whether the child is condemned."""
        self.now = at
        self._due = at + self._supervisor._check_children()
        return self._watched.cause is not None

    def looks(self, until: float) -> bool:
        """Look as often as a supervisor does."""
        is_condemned = self.look(self.now)
        while self._due < until:
            is_condemned = self.look(self._due)
        return is_condemned


@pytest.fixture
def watch() -> Iterator[Watch]:
    control, other = socket.socketpair()
    file, limits_page = create_limits_page()
    with (
        subprocess.Popen(["/bin/sleep", "600"]) as process,
        tempfile.TemporaryFile() as trace,
        open_scratch_file() as plan,
        control,
        other,
    ):
        plan.write(encode(ChildPlan("nothing:at_all", None)))
        supervisor = Supervisor(control, file, plan.fileno(), clock=lambda: watch.now)
        watched = supervisor._children[1] = WatchedChild(1, process.pid, 0, trace)
        watch = Watch(supervisor, watched)
        yield watch
        process.kill()
        supervisor._wake.close()
        supervisor._woken.close()
        supervisor._limits_page.close()
    limits_page.close()
    os.close(file)


def test_a_child_that_takes_too_long_is_condemned(watch: Watch) -> None:
    watch.begins(100.0)
    assert not watch.looks(102.9)
    assert watch.looks(103.1)


@pytest.mark.parametrize("since", [100.0, 102.0])
def test_time_in_which_all_stood_still_is_not_counted(watch: Watch, since: float) -> None:
    watch.begins(100.0)
    assert not watch.looks(102.0)
    watch.begins(since)  # Perhaps just before the pause, where no look has seen it.
    left = since + 3.0 - 102.0
    assert not watch.look(400.0)
    assert not watch.looks(400.0 + left - 0.2)
    assert watch.looks(400.0 + left + 0.2)


def test_job_after_a_pause_has_the_usual_time(watch: Watch) -> None:
    watch.begins(100.0)
    assert not watch.looks(102.0)
    watch.begins(400.0)
    assert not watch.look(400.1)
    assert not watch.looks(402.9)
    assert watch.looks(403.1)
