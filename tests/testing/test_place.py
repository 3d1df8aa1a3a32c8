"""Test servers lie in memory where there is enough, and killed sessions leave nothing for long."""

import os
import time
from pathlib import Path

import pytest

from penstock.embedded import Server
from penstock.testing import databases
from penstock.testing.databases import MAX_AGE_S, PREFIX, folder_for, remove_abandoned


def test_all_processes_of_a_session_find_the_same_place(tmp_path: Path) -> None:
    assert folder_for(tmp_path / "a") == folder_for(tmp_path / "a")
    assert folder_for(tmp_path / "a") != folder_for(tmp_path / "b")


@pytest.mark.parametrize("name", ["MIN_FREE_BYTES", "MEMORY"])
def test_without_enough_memory_the_disk_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(databases, "MIN_FREE_BYTES", 2**60)
    if name == "MEMORY":
        monkeypatch.setattr(databases, "MEMORY", tmp_path / "none")
    assert folder_for(tmp_path) == tmp_path / "penstock"


def test_what_killed_sessions_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    fresh, old, used = (tmp_path / f"{PREFIX}{name}" for name in ("fresh", "old", "used"))
    for folder in (fresh, old):
        folder.mkdir()
    with Server(used).hold():
        for folder in (old, used):
            os.utime(folder, (0, time.time() - MAX_AGE_S - 1))
        remove_abandoned(tmp_path)
        assert (fresh.exists(), old.exists(), used.exists()) == (True, False, True)
