"""Files in a folder of this machine."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import ConfigError, NotRetryable, Retryable
from penstock.storage.errors import (
    FileChanged,
    ObjectDamaged,
    ObjectMissing,
    ObjectTooLarge,
    StorageDown,
)
from penstock.storage.location import StorageOptions
from penstock.storage.names import object_name
from penstock.storage.storage import NewFile, Storage
from tests.storage.files import a_file

HOURS_AGO = 7200


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def storage(root: Path) -> Storage:
    return Storage.of(str(root), StorageOptions())


def files_in(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def entries(root: Path) -> list[str]:
    return [path.name for path in root.iterdir()]


def make_old(root: Path, name: str) -> None:
    then = time.time() - HOURS_AGO
    os.utime(root / name, (then, then))


async def names(storage: Storage) -> list[str]:
    return [each.name async for batch in storage.walk() for each in batch]


async def test_a_stored_file_is_read_again(storage: Storage, tmp_path: Path) -> None:
    path, digest = a_file(tmp_path, b"hello")
    name = await storage.put("acme", path, digest)
    assert name == object_name("acme", digest)
    assert await storage.read(name, 5) == b"hello"
    assert await storage.to_file(name, tmp_path / "copy") == 5
    assert (tmp_path / "copy").read_bytes() == b"hello"


async def test_an_empty_file_is_a_file(storage: Storage, tmp_path: Path) -> None:
    name = await storage.put("acme", *a_file(tmp_path, b""))
    assert await storage.read(name, 0) == b""
    assert await storage.to_file(name, tmp_path / "copy") == 0


async def test_a_file_url_is_a_folder_too(tmp_path: Path) -> None:
    storage = Storage.of((tmp_path / "a folder").as_uri(), StorageOptions())
    name = await storage.put("acme", *a_file(tmp_path, b"hello"))
    assert (tmp_path / "a folder" / name).read_bytes() == b"hello"


async def test_a_large_file_comes_in_blocks(storage: Storage, tmp_path: Path) -> None:
    content = os.urandom(5_000_000)
    name = await storage.put("acme", *a_file(tmp_path, content))
    opened = await storage.open(name)
    assert opened.bytes == len(content)
    blocks = [block async for block in opened]
    assert b"".join(blocks) == content
    assert max(map(len, blocks)) < 2_500_000


async def test_the_same_content_is_kept_once_a_tenant(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    path, digest = a_file(tmp_path, b"hello")
    await asyncio.gather(*(storage.put("acme", path, digest) for _ in range(20)))
    await storage.put("other", path, digest)
    assert len(files_in(root)) == 2


async def test_a_file_that_changed_while_it_was_read_is_not_stored(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    path, digest = a_file(tmp_path, b"hello")
    path.write_bytes(b"changed")
    with pytest.raises(FileChanged) as changed:
        await storage.put("acme", path, digest)
    assert isinstance(changed.value, Retryable)
    assert files_in(root) == []


async def test_stored_file_does_not_change_with_its_original(
    storage: Storage, tmp_path: Path
) -> None:
    path, digest = a_file(tmp_path, b"hello")
    name = await storage.put("acme", path, digest)
    path.write_bytes(b"jello")
    assert await storage.read(name, 5) == b"hello"


async def test_a_file_that_is_gone_says_so(storage: Storage, tmp_path: Path) -> None:
    name = object_name("acme", bytes(32))
    with pytest.raises(ObjectMissing, match=f"{name} is gone") as missing:
        await storage.to_file(name, tmp_path / "copy")
    assert isinstance(missing.value, NotRetryable)


async def test_a_damaged_file_is_not_taken_for_the_one_that_was_stored(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    name = await storage.put("acme", *a_file(tmp_path, b"hello"))
    (root / name).write_bytes(b"jello")
    with pytest.raises(ObjectDamaged):
        await storage.to_file(name, tmp_path / "copy")


async def test_more_bytes_than_wanted_are_not_read(storage: Storage, tmp_path: Path) -> None:
    name = await storage.put("acme", *a_file(tmp_path, b"hello"))
    with pytest.raises(ObjectTooLarge, match="5 bytes, and at most 4") as too_large:
        await storage.read(name, 4)
    assert too_large.value.name == name


async def test_deleting_what_is_gone_is_no_error_and_the_rest_goes(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    stored = [
        await storage.put("acme", *a_file(tmp_path, text.encode())) for text in ("a", "b", "c")
    ]
    await storage.delete([object_name("acme", bytes(32)), *stored])
    await storage.delete(stored)
    assert files_in(root) == []


async def test_folders_that_have_become_empty_go(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    await storage.delete([await storage.put("acme", *a_file(tmp_path, b"hello"))])
    assert entries(root) == []


async def test_walk_finds_old_files_only(storage: Storage, root: Path, tmp_path: Path) -> None:
    old = await storage.put("acme", *a_file(tmp_path, b"old"))
    other = await storage.put("other", *a_file(tmp_path, b"old"))
    await storage.put("acme", *a_file(tmp_path, b"young"))
    make_old(root, old)
    make_old(root, other)
    assert sorted(await names(storage)) == sorted([old, other])


async def test_storing_a_file_again_makes_it_young(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    path, digest = a_file(tmp_path, b"hello")
    make_old(root, await storage.put("acme", path, digest))
    await storage.put("acme", path, digest)
    assert await names(storage) == []


async def test_the_part_that_a_crash_has_left_is_swept_like_an_orphan(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    name = await storage.put("acme", *a_file(tmp_path, b"hello"))
    part = root / f"{name}.part-0123456789abcdef"
    part.write_bytes(b"hel")
    make_old(root, str(part))
    assert await names(storage) == [f"{name}.part-0123456789abcdef"]
    await storage.delete(await names(storage))
    assert files_in(root) == [root / name]


async def test_files_come_while_others_go(storage: Storage, root: Path, tmp_path: Path) -> None:
    """Folders that have become empty are removed, also while a file is on its way into them."""
    path, digest = a_file(tmp_path, b"hello")
    name = object_name("acme", digest)

    async def come_and_go() -> None:
        for _ in range(40):
            await storage.put("acme", path, digest)
            await storage.delete([name])

    await asyncio.gather(*(come_and_go() for _ in range(4)))
    await storage.put("acme", path, digest)
    assert files_in(root) == [root / name]


def given(folder: Path, *contents: bytes) -> list[NewFile]:
    found = [a_file(folder, each, f"{number}.txt") for number, each in enumerate(contents)]
    return [NewFile(path, path.stat().st_size, digest) for path, digest in found]


async def test_many_files_are_stored_as_each_would_be(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    files = given(tmp_path, *(f"file {number}".encode() for number in range(50)))
    assert await storage.put_all("acme", [*files, files[0]]) == set()
    for each in files:
        stored = root / object_name("acme", each.digest)
        assert stored.read_bytes() == each.file.read_bytes()
    assert len(files_in(root)) == 50
    assert await storage.put_all("acme", []) == set()


async def test_put_all_returns_changed_and_missing_files(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    files = given(tmp_path, b"one", b"two", b"three")
    files[0].file.write_bytes(b"another")
    files[1].file.unlink()
    assert await storage.put_all("acme", files) == {files[0].file, files[1].file}
    assert [path.read_bytes() for path in files_in(root)] == [b"three"]


async def test_folder_that_takes_no_file_is_a_storage_that_is_down(
    storage: Storage, root: Path, tmp_path: Path
) -> None:
    files = given(tmp_path, *(f"file {number}".encode() for number in range(20)))
    (root / "acme").symlink_to("/dev/null")
    with pytest.raises(StorageDown, match="store 20 files"):
        await storage.put_all("acme", files)
    assert entries(root) == ["acme"]


async def test_a_copy_that_is_given_up_leaves_nothing_at_its_place(
    storage: Storage, tmp_path: Path
) -> None:
    name = await storage.put("acme", *a_file(tmp_path, os.urandom(3_000_000)))
    copying = asyncio.create_task(storage.to_file(name, tmp_path / "copy"))
    await asyncio.sleep(0)
    copying.cancel()
    await asyncio.wait([copying])
    assert copying.cancelled()
    assert not (tmp_path / "copy").exists()


async def test_no_place_for_a_copy_is_no_fault_of_the_stored_file(
    storage: Storage, tmp_path: Path
) -> None:
    name = await storage.put("acme", *a_file(tmp_path, b"hello"))
    with pytest.raises(StorageDown):
        await storage.to_file(name, tmp_path / "no folder" / "copy")


def test_a_folder_that_cannot_be_made_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="a folder that can be made"):
        Storage.of(str(tmp_path / "file" / "objects"), StorageOptions())


@pytest.fixture
def full_disk(root: Path) -> Iterator[None]:
    """A folder where a file cannot be made because something stands in its way."""
    (root / "acme").write_text("")
    yield
    (root / "acme").unlink()


@pytest.mark.usefixtures("storage", "full_disk")
async def test_a_folder_that_takes_no_file_is_a_storage_that_is_down(
    storage: Storage, tmp_path: Path
) -> None:
    with pytest.raises(StorageDown, match=r"Could not store a\.txt"):
        await storage.put("acme", *a_file(tmp_path, b"hello"))
