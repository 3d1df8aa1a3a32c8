"""A bucket that is down, slow or busy."""

import time
from email.utils import formatdate
from pathlib import Path

import pytest

from penstock import Retryable
from penstock.storage.errors import StorageDown
from penstock.storage.location import StorageOptions
from penstock.storage.names import object_name
from penstock.storage.storage import Storage
from tests.storage.files import a_file
from tests.storage.stand_in import Reply, StandIn, reply

NAME = object_name("acme", bytes(32))
MISSING = reply("404 Not Found")
STORED = reply("200 OK", ETag='"1"')


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


def storage_at(port: int, patience: float = 30) -> Storage:
    return Storage.of(
        "s3://bucket/files", StorageOptions(f"http://127.0.0.1:{port}", "us-east-1", True, patience)
    )


def found(age: float) -> bytes:
    return reply("200 OK", ETag='"1"', Last_Modified=formatdate(time.time() - age, usegmt=True))


async def walked(storage: Storage) -> list[str]:
    return [each.name async for batch in storage.walk() for each in batch]


async def test_a_bucket_that_is_down_may_come_back(tmp_path: Path, unused_tcp_port: int) -> None:
    storage = storage_at(unused_tcp_port)
    with pytest.raises(StorageDown, match=r"Could not store a\.txt") as down:
        await storage.put("acme", *a_file(tmp_path, b"hello"))
    assert isinstance(down.value, Retryable)
    assert "\n" not in str(down.value)
    for asking in (storage.read(NAME, 5), storage.delete([NAME]), walked(storage)):
        with pytest.raises(StorageDown):
            await asking


async def test_a_busy_bucket_is_asked_again(tmp_path: Path) -> None:
    def busy_at_first(method: str, time_of: int) -> Reply:
        if time_of == 1:
            return reply("503 Slow Down")
        return MISSING if method == "HEAD" else STORED

    async with StandIn(busy_at_first) as server:
        await storage_at(server.port).put("acme", *a_file(tmp_path, b"hello"))
    assert server.asked == {"HEAD": 2, "PUT": 2}


async def test_busy_bucket_is_asked_three_times(tmp_path: Path) -> None:
    async with StandIn(lambda *_: reply("503 Slow Down")) as server:
        with pytest.raises(StorageDown, match="503"):
            await storage_at(server.port).put("acme", *a_file(tmp_path, b"hello"))
    assert server.asked == {"HEAD": 3}


@pytest.mark.parametrize("size", [5, 9_000_000])
async def test_a_bucket_that_breaks_off_in_an_upload_is_down(tmp_path: Path, size: int) -> None:
    def break_off(method: str, time_of: int) -> Reply:
        return MISSING if method == "HEAD" else "reset"

    async with StandIn(break_off) as server:
        with pytest.raises(StorageDown, match="Could not store"):
            await storage_at(server.port).put("acme", *a_file(tmp_path, bytes(size)))


async def test_a_bucket_that_never_answers_is_too_slow(tmp_path: Path) -> None:
    async with StandIn(lambda *_: "hang") as server:
        storage = storage_at(server.port, patience=0.3)
        path, digest = a_file(tmp_path, b"hello")
        start = time.monotonic()
        for asking in (
            storage.put("acme", path, digest),
            storage.read(NAME, 5),
            storage.delete([NAME]),
            walked(storage),
        ):
            with pytest.raises(StorageDown):
                await asking
        assert time.monotonic() - start < 30


async def test_a_file_stored_a_moment_ago_is_not_sent_again(tmp_path: Path) -> None:
    async with StandIn(lambda method, _: found(60) if method == "HEAD" else STORED) as server:
        await storage_at(server.port).put("acme", *a_file(tmp_path, b"hello"))
    assert server.asked == {"HEAD": 1}


async def test_old_object_is_sent_again_to_escape_the_sweep(tmp_path: Path) -> None:
    async with StandIn(lambda method, _: found(2000) if method == "HEAD" else STORED) as server:
        await storage_at(server.port).put("acme", *a_file(tmp_path, b"hello"))
    assert server.asked == {"HEAD": 1, "PUT": 1}
