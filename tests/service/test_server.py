"""The service on real sockets."""

import asyncio
import sys

import httpx


async def test_a_server_answers_over_a_socket(server: str) -> None:
    async with httpx.AsyncClient(base_url=server, timeout=30) as http:
        answer = await http.get("/api/v1/jobs")

    assert answer.json() == {"jobs": [], "after": None}


LIMITED = """
import resource
from penstock.service.connection import Sockets
from penstock.service.server import with_files_for
for hard in (1100, 800):
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    taken = with_files_for(Sockets(connections=500)).connections
    print(taken, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


async def test_a_server_takes_no_more_connections_than_the_process_has_files_for() -> None:
    # In a process of its own: a limit that was lowered cannot be raised again.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LIMITED, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert [line.split() for line in told.decode().splitlines()] == [
        ["500", "1044"],
        ["400", "800"],
    ]
