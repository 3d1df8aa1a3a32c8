"""What the system refuses, as HTTP tells it."""

import errno
import os
from pathlib import Path
from socket import gaierror

import asyncpg
import httpx
import pytest

from penstock.storage import local
from penstock_apps.knowledge.http.routing import problem_from_os_error
from penstock_apps.knowledge.maintenance.sweep import KnowledgeSweeper
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from tests.knowledge.scene import Scene


def test_a_full_disk_is_not_told_as_a_lost_database() -> None:
    # As Linux tells it.
    with pytest.raises(OSError, match="No space") as caught:
        Path("/dev/full").write_bytes(b"x")
    problem = problem_from_os_error(caught.value)
    assert (problem.status, problem.kind) == (503, "files-unusable")
    assert "No space left on device" in problem.detail


@pytest.mark.parametrize("where", ["127.0.0.1:1", "localhost:1", "/x?host=/nowhere"])
async def test_a_database_that_does_not_answer_is_told_as_lost(where: str) -> None:
    with pytest.raises(OSError, match=r"No such file|[Cc]onnect") as caught:
        await asyncpg.connect(f"postgresql://{where}", user="x", timeout=30)
    assert problem_from_os_error(caught.value).kind == "database-lost"


@pytest.mark.parametrize(
    "error",
    [TimeoutError(), gaierror(-2, "Name or service not known"), OSError(errno.EHOSTUNREACH, "x")],
)
def test_a_network_that_is_down_is_told_as_a_lost_database(error: OSError) -> None:
    assert problem_from_os_error(error).kind == "database-lost"


def test_what_is_neither_stays_a_fault_of_ours() -> None:
    missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "template.html")
    with pytest.raises(FileNotFoundError):
        problem_from_os_error(missing)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("number", "word"),
    [(errno.ENOSPC, "full"), (errno.EROFS, "read-only"), (errno.EACCES, "read-")],
)
async def test_full_storage_is_a_503_and_logged_with_its_path(
    http: httpx.AsyncClient,
    scene: Scene,
    runtime: KnowledgeRuntime,
    objects: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
    word: str,
) -> None:
    store_file = local.store_file

    def refusing(root: Path, name: str, path: Path) -> None:
        if path.read_bytes() == b"last":
            raise OSError(number, os.strerror(number), str(root / name))
        store_file(root, name, path)

    monkeypatch.setattr(local, "store_file", refusing)
    monkeypatch.setattr(local, "MAX_THREADS", 1)
    files = [("files", (each, each.encode())) for each in ("first", "last")]
    answer = await http.post("/upload/documents", files=files)
    assert answer.status_code == 503
    assert word in answer.json()["detail"]
    assert "Tell whoever runs this service" in answer.json()["detail"]
    assert str(objects) not in answer.text
    [line] = [each for each in caplog.records if each.levelname == "ERROR"]
    for said in (str(objects), "PENSTOCK_KNOWLEDGE_STORAGE", os.strerror(number)):
        assert said in line.getMessage()

    # What was stored before belongs to nobody, and goes.
    assert stored(objects) == [b"first"]
    await scene.rows("UPDATE k.object SET held_until = now() - interval '1 second'")
    assert await KnowledgeSweeper(runtime).orphans() == 2
    assert stored(objects) == []


def stored(objects: Path) -> list[bytes]:
    return [each.read_bytes() for each in objects.rglob("*") if each.is_file()]
