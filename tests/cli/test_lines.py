"""Lines of standard input."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from penstock.cli.commands.enqueue import CHUNK_BYTES, read_lines

Pipe = tuple[IO[bytes], IO[bytes]]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Its end to read from, and the one to write to."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as sink:
        yield source, sink


async def test_lines_come_as_they_are_written(pipe: Pipe) -> None:
    source, sink = pipe
    found = read_lines(source)
    sink.write(b"one\ntw")
    assert await anext(found) == b"one"
    sink.write(b"o\n\nthe last has no end")
    sink.close()
    assert [line async for line in found] == [b"two", b"", b"the last has no end"]


async def test_a_line_may_be_longer_than_what_is_read_at_once(tmp_path: Path) -> None:
    long = b"x" * (3 * CHUNK_BYTES)
    (tmp_path / "file").write_bytes(b"short\n" + long + b"\nshort\n")
    with (tmp_path / "file").open("rb") as file:
        assert [line async for line in read_lines(file)] == [b"short", long, b"short"]


async def test_nothing_has_no_lines(pipe: Pipe) -> None:
    source, sink = pipe
    sink.close()
    assert [line async for line in read_lines(source)] == []


async def test_an_interrupt_is_noticed_while_no_line_comes(pipe: Pipe) -> None:
    """As Ctrl-C interrupts: what waits for a line is cancelled from beside it."""
    source, _ = pipe
    found = read_lines(source)
    reading = asyncio.ensure_future(anext(found))
    asyncio.get_running_loop().call_later(0.01, reading.cancel)
    with pytest.raises(asyncio.CancelledError):
        await reading
    await found.aclose()
