"""What the system refuses, as HTTP tells it."""

import errno
import os
from pathlib import Path
from socket import gaierror

import asyncpg
import pytest

from penstock_apps.knowledge.http.refusing import told_of_system


def test_a_full_disk_is_not_told_as_a_lost_database() -> None:
    # As Linux tells it.
    with pytest.raises(OSError, match="No space") as caught:
        Path("/dev/full").write_bytes(b"x")
    problem = told_of_system(caught.value)
    assert (problem.status, problem.kind) == (503, "files-unusable")
    assert "No space left on device" in problem.detail


@pytest.mark.parametrize("where", ["127.0.0.1:1", "localhost:1", "/x?host=/nowhere"])
async def test_a_database_that_does_not_answer_is_told_as_lost(where: str) -> None:
    with pytest.raises(OSError, match=r"No such file|[Cc]onnect") as caught:
        await asyncpg.connect(f"postgresql://{where}", user="x", timeout=5)
    assert told_of_system(caught.value).kind == "database-lost"


@pytest.mark.parametrize(
    "error",
    [TimeoutError(), gaierror(-2, "Name or service not known"), OSError(errno.EHOSTUNREACH, "x")],
)
def test_a_network_that_is_down_is_told_as_a_lost_database(error: OSError) -> None:
    assert told_of_system(error).kind == "database-lost"


def test_what_is_neither_stays_a_fault_of_ours() -> None:
    missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "template.html")
    with pytest.raises(FileNotFoundError):
        told_of_system(missing)
