import os
import time
from pathlib import Path

import pytest

from penstock_apps.knowledge.upload import sweep, workspace


def entries(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def test_a_workspace_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    async def break_down() -> None:
        async with workspace(tmp_path / "incoming") as here:
            (here / "a").write_text("a")
            raise KeyError

    with pytest.raises(KeyError):
        await break_down()
    assert entries(tmp_path / "incoming") == set()


async def test_what_a_killed_process_has_left_is_swept_after_a_day(tmp_path: Path) -> None:
    async with workspace(tmp_path) as here:
        (tmp_path / "upload-left").mkdir()
        (tmp_path / "upload-left" / "a").write_text("a")
        (tmp_path / "else").mkdir()
        then = time.time() - 90_000
        for each in ("upload-left", "else"):
            os.utime(tmp_path / each, (then, then))
        assert sweep(tmp_path) == 1
        assert entries(tmp_path) == {here.name, "else"}
