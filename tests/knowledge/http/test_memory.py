"""Thousands of files in one request, in a server whose memory stays as it is."""

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.fixtures.database import Database
from tests.knowledge.upload.forms import CONTENT_TYPE, file, form

FILES = 4000
SIZE = 20_000
MB = 1024


@asynccontextmanager
async def server_of(database: Database) -> AsyncIterator[tuple[str, int]]:
    """A server's address and the id of its process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.knowledge.http.serving_program", database.url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    try:
        yield (await process.stdout.readline()).decode().strip(), process.pid
    finally:
        process.stdin.close()
        await process.wait()


def resident(process: int, what: str = "VmRSS") -> int:
    """In KB; VmHWM is the most there ever was."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1])
    raise AssertionError(what)


async def many(number: int, seed: int) -> AsyncIterator[bytes]:
    made = random.Random(seed)
    for each in range(number):
        yield file(f"folder{each % 40}/{each}.txt", made.randbytes(SIZE // 2).hex().encode())
    yield form()


@pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="PENSTOCK_LONG: 80 MB are sent")
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("objects")
async def test_upload_of_thousands_of_files_needs_constant_memory(
    knowledge_database: Database,
) -> None:
    async with (
        server_of(knowledge_database) as (url, process),
        httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=500) as http,
    ):

        async def upload(number: int, seed: int, name: str) -> httpx.Response:
            content = many(number, seed)
            where = f"/upload/documents?name={name}"
            return await http.post(where, content=content, headers={"content-type": CONTENT_TYPE})

        assert (await upload(300, 1, "few")).json()["jobCount"] == 300
        start, most = resident(process), resident(process, "VmHWM")
        began = time.perf_counter()
        answer = await upload(FILES, 2, "many")
        took = time.perf_counter() - began
        assert (answer.status_code, answer.json()["jobCount"]) == (202, FILES)
        end, top = resident(process), resident(process, "VmHWM")
        began = time.perf_counter()
        again = await upload(FILES, 2, "many")
        print(
            f"\n{FILES} files in {took:.1f} s, again in {time.perf_counter() - began:.1f} s; "
            f"resident: {start // MB} MB at the start, {end // MB} at the end, {top // MB} at most"
        )
        assert (again.json()["jobCount"], again.json()["pending"]) == (0, FILES)
        assert top - most < 16 * MB
