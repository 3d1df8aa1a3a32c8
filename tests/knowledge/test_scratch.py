"""Temporary files go with their process, however it ends."""

import signal
import sys
import tempfile
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from penstock_apps.knowledge.runtime import (
    SCRATCH_PREFIX,
    KnowledgeRuntime,
    remove_dead_folders,
    scratch_folder,
)

HOLD = """
import sys
from penstock_apps.knowledge.runtime import scratch_folder
with scratch_folder() as folder:
    (folder / "page").write_text("page")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def entries(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def test_folder_of_killed_process_is_removed_by_the_next(temporary: Path) -> None:
    holder = await create_subprocess_exec(sys.executable, "-c", HOLD, stdin=PIPE, stdout=PIPE)
    assert holder.stdout is not None
    left = Path((await holder.stdout.readline()).decode().strip())
    with scratch_folder() as own:
        assert remove_dead_folders(temporary) == 0
        assert entries(temporary) == {left.name, own.name}

        holder.send_signal(signal.SIGKILL)
        await holder.wait()
        with scratch_folder() as other:
            assert entries(temporary) == {own.name, other.name}
    assert entries(temporary) == set()


def test_only_own_folders_are_swept(
    temporary: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "page").write_text("page")
    (temporary / f"{SCRATCH_PREFIX}link").symlink_to(elsewhere)
    (temporary / f"{SCRATCH_PREFIX}file").write_text("a file")
    (temporary / "penstock-something").mkdir()
    assert remove_dead_folders(temporary) == 0
    assert len(entries(temporary)) == 3
    assert (elsewhere / "page").exists()


async def test_workshop_works_in_such_a_folder(runtime: KnowledgeRuntime) -> None:
    assert runtime.folder.name.startswith(SCRATCH_PREFIX)
