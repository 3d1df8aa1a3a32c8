"""The model of claim, expiry, rescue and settle, searched in full where spin is installed."""

import asyncio
import shutil
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "docs" / "models" / "claim.pml"

pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="needs spin and gcc"
)


async def search(folder: Path, *options: str) -> str:
    """What spin reports; it leaves its files in the folder."""
    spin = await asyncio.create_subprocess_exec(
        "spin", *options, MODEL, cwd=folder, stdout=asyncio.subprocess.PIPE
    )
    report, _ = await spin.communicate()
    return report.decode()


async def test_model_accepts_no_stale_write_and_fails_no_unbegun_job(tmp_path: Path) -> None:
    assert "errors: 0" in await search(tmp_path, "-run", "-safety", "-noclaim")


@pytest.mark.parametrize("options", [(), ("-DPOISON",)], ids=["job", "poison"])
async def test_in_every_order_of_events_the_job_ends(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    assert "errors: 0" in await search(tmp_path, *options, "-run", "-f")


async def test_without_the_token_the_search_finds_a_stale_write(tmp_path: Path) -> None:
    report = await search(tmp_path, "-DNO_TOKEN", "-run", "-safety", "-noclaim")
    assert "assertion violated (mine==granted)" in report


async def test_model_without_marks_fails_an_unbegun_job(tmp_path: Path) -> None:
    report = await search(tmp_path, "-DNO_MARK", "-run", "-safety", "-noclaim")
    assert "assertion violated has_begun" in report
