"""How long a document may take grows with its size."""

import os
from pathlib import Path

import pytest

from penstock_apps.knowledge import tasks
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.settings import MB, PREFIX
from tests.knowledge.scene import Scene, worker_of

SCAN = Path(__file__).parent.parent / "files" / "scan.png"


async def test_time_limit_of_a_document_is_that_of_its_size(scene: Scene, library: Library) -> None:
    await scene.add(
        library, {"small.txt": "a", "half.txt": "b" * (MB // 2), "big.txt": "c" * 5 * MB}
    )
    small = (await scene.app.list(task=tasks.ingest)).jobs
    [big] = (await scene.app.list(task=tasks.ingest_large)).jobs
    assert sorted(job.timeout or 0 for job in small) == [121, 180]
    assert big.timeout == 3600, "its child process is ended before, as all are"


@pytest.fixture
def endless_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are read by a program that takes far longer than is allowed."""
    program = tmp_path / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec sleep 50\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    for name, value in {"LEAST_SECONDS": "2", "SECONDS_PER_MB": "0"}.items():
        monkeypatch.setenv(f"{PREFIX}EXTRACT_{name}", value)
    monkeypatch.setenv(f"{PREFIX}ATTEMPTS", "1")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("endless_reader")
async def test_slow_small_file_fails_at_the_time_limit_of_its_size(
    scene: Scene, library: Library
) -> None:
    receipt = await scene.add(library, {"scan.png": SCAN.read_bytes()})
    async with worker_of(scene.app, slots=1):
        await scene.ended(library, receipt)
    document = await library.document(receipt.documents[0].id)
    assert document.state == "failed"
    assert document.error == (
        "The file took longer than 2 seconds to read. Split it into smaller files and send those."
    )
