"""However much comes, the memory it takes stays the same."""

import gc
import os
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from penstock_apps.knowledge.multipart_form import ReceivedFile, receive_form
from tests.knowledge.upload.forms import CONTENT_TYPE, file, form

LONG = bool(os.environ.get("PENSTOCK_LONG"))
MB = 1024 * 1024
CHUNK = os.urandom(64 * 1024)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nobody looks for garbage meanwhile, in all that the tests before have left."""
    gc.disable()
    yield
    gc.enable()


async def one_of(size: int) -> AsyncIterator[bytes]:
    yield file("big", b"")[:-2]
    for _ in range(size // len(CHUNK)):
        yield CHUNK
    yield b"\r\n" + form()


async def many(number: int) -> AsyncIterator[bytes]:
    for each in range(number):
        yield file(f"folder/{each}.txt", CHUNK[:3000])
    yield form()


@pytest.mark.usefixtures("traced")
async def test_a_large_file_takes_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    size = (2048 if LONG else 64) * MB
    items = [item async for item in receive_form(one_of(size), CONTENT_TYPE, tmp_path)]
    _, most = tracemalloc.get_traced_memory()
    (item,) = items
    assert isinstance(item, ReceivedFile)
    assert item.bytes == size
    hashed = sha256()
    for _ in range(size // len(CHUNK)):
        hashed.update(CHUNK)
    assert item.digest == hashed.digest()
    assert most < 6 * MB


@pytest.mark.usefixtures("traced")
async def test_nor_do_four_thousand_files(tmp_path: Path) -> None:
    number = 4000 if LONG else 800
    seen = 0
    async for item in receive_form(many(number), CONTENT_TYPE, tmp_path):
        assert isinstance(item, ReceivedFile)
        with item:
            seen += 1
    _, most = tracemalloc.get_traced_memory()
    assert seen == number
    assert most < 2 * MB


@pytest.mark.usefixtures("uncollected")
async def test_the_loop_is_not_held_up(tmp_path: Path) -> None:
    """Between two chunks nothing takes long: disk and hash are the business of a thread."""
    longest = 0.0
    last = 0.0

    async def measured() -> AsyncIterator[bytes]:
        nonlocal longest, last
        async for chunk in one_of(32 * MB):
            last = time.thread_time()
            yield chunk
            longest = max(longest, time.thread_time() - last)

    async for _ in receive_form(measured(), CONTENT_TYPE, tmp_path):
        pass
    assert longest < 0.05
