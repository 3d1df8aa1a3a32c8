from pathlib import Path

import pytest

from penstock_apps.knowledge.multipart_form import workspace


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
