"""A bucket that is down, while a file is taken in and while it is brought in."""

from collections.abc import AsyncIterator
from email.utils import formatdate

import pytest

from penstock.storage.errors import StorageDown
from penstock_apps.knowledge.library import Library
from tests.knowledge.scene import Scene
from tests.storage.stand_in import Reply, StandIn, reply

TEXTS = {"a.txt": "A weir holds water back."}


class Bucket:
    """Holds one file, once it was put there."""

    def __init__(self) -> None:
        self.is_down = False
        self._is_full = False

    def __call__(self, method: str, _: int) -> Reply:
        if self.is_down:
            return reply("503 Slow Down")
        if method == "PUT":
            self._is_full = True
            return reply("200 OK", ETag='"1"')
        if not self._is_full:
            return reply("404 Not Found")
        body = TEXTS["a.txt"].encode() if method == "GET" else b""
        return reply("200 OK", body, ETag='"1"', Last_Modified=formatdate(usegmt=True))


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
async def objects(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Files are stored there."""
    async with StandIn(bucket) as server:
        place = "PENSTOCK_KNOWLEDGE_STORAGE"
        monkeypatch.setenv(place, "s3://bucket/files")
        monkeypatch.setenv(f"{place}_ENDPOINT", f"http://127.0.0.1:{server.port}")
        monkeypatch.setenv(f"{place}_ALLOW_HTTP", "true")
        monkeypatch.setenv(f"{place}_REGION", "us-east-1")
        monkeypatch.setenv(f"{place}_PATIENCE", "30")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield "s3://bucket/files"


async def test_failed_store_leaves_no_document_and_can_be_repeated(
    scene: Scene, library: Library, bucket: Bucket
) -> None:
    bucket.is_down = True
    with pytest.raises(StorageDown):
        await scene.add(library, TEXTS)
    assert (await library.progress()).total == 0
    bucket.is_down = False
    await scene.bring(library, TEXTS)
    assert (await library.progress()).completed == 1


async def test_document_completes_once_the_storage_is_back(
    scene: Scene, library: Library, bucket: Bucket
) -> None:
    await scene.add(library, TEXTS)
    bucket.is_down = True
    await scene.drain()
    counts = await library.progress()
    assert (counts.completed, counts.failed, counts.processing) == (0, 0, 1)
    bucket.is_down = False
    await scene.drain(scheduled=True)
    assert (await library.progress()).completed == 1
