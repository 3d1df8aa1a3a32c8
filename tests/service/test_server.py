"""The service on real sockets."""

import asyncio
import logging
import sys
from typing import Any

import httpx
import pytest

from penstock import Penstock
from penstock.service.server import WarningRateLimit


async def test_a_server_answers_over_a_socket(server: str) -> None:
    async with httpx.AsyncClient(base_url=server, timeout=30) as http:
        answer = await http.get("/api/v1/jobs")

    assert answer.json() == {"jobs": [], "after": None}


async def test_server_closes_the_connection_after_a_fault(
    app: Penstock, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(app.store, "list_jobs", broken)
    address = httpx.URL(server)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"GET /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\n\r\n")
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 ")
    assert b"\r\nconnection: close" in head.lower()
    assert b"urn:penstock:fault" in body


async def test_broken_requests_do_not_fill_the_log(
    server: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = httpx.URL(server)
    for _ in range(5):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
        async with asyncio.timeout(30):
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
    # None, if an earlier test of this process has had the one of this minute.
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) <= 1


def test_repeated_warnings_are_logged_once_a_minute() -> None:
    def is_logged(level: int, text: str, at: float) -> bool:
        record = logging.LogRecord("uvicorn.error", level, "", 0, text, (), None)
        record.created = at
        return seldom.filter(record)

    seldom = WarningRateLimit()
    assert is_logged(logging.WARNING, "broken", 0.0)
    assert not is_logged(logging.WARNING, "broken", 59.0)
    assert is_logged(logging.WARNING, "other", 59.0)
    assert is_logged(logging.ERROR, "broken", 59.0)
    assert is_logged(logging.WARNING, "broken", 61.0)


LIMITED = """
import resource
from penstock.service.server import ConnectionLimits
from penstock.service.server import with_file_limit_for
for hard in (1100, 800):
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    taken = with_file_limit_for(ConnectionLimits(connections=500)).connections
    print(taken, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


async def test_open_files_limit_the_connections_of_a_server() -> None:
    # In a process of its own: a limit that was lowered cannot be raised again.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LIMITED, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await process.communicate()
    assert [line.split() for line in told.decode().splitlines()] == [
        ["500", "1044"],
        ["400", "800"],
    ]
