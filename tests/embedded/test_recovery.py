"""What a crash leaves behind, and how the next holder gets over it."""

import asyncio
import ctypes
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import psutil
import pytest

from penstock.embedded import Server
from penstock.embedded.folder import LockedFile
from penstock.embedded.install import account_for
from penstock.errors import EmbeddedError
from tests.embedded.query import value
from tests.fixtures.until import until

PR_SET_CHILD_SUBREAPER = 36
LONG_QUERY = "SELECT sum(n) FROM generate_series(1, 1e12) n"
ITS_PROCESS = f"SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query = '{LONG_QUERY}'"


async def test_commits_survive_a_killed_postmaster(server: Server) -> None:
    with server.hold() as url:
        await value(url, "CREATE TABLE kept AS SELECT 42 AS number")
        _kill_postmaster(server)
        with server.hold() as again:
            assert again == url
            assert await value(again, "SELECT number FROM kept") == 42


async def test_busy_backend_of_a_killed_postmaster_blocks_no_restart(server: Server) -> None:
    with server.hold() as url:
        connection = await asyncpg.connect(url)
        busy = asyncio.create_task(connection.fetchval(LONG_QUERY))
        await until(lambda: value(url, ITS_PROCESS))
        _kill_postmaster(server)
        with server.hold():
            assert await value(url, "SELECT 1") == 1
        with pytest.raises((asyncpg.PostgresError, ConnectionError)):
            await busy
        connection.terminate()


@pytest.fixture
async def children_are_not_reaped() -> AsyncIterator[None]:
    """Be the parent of every process that loses its own, and a bad one; as PID 1 of a container."""
    libc = ctypes.CDLL(None)
    own = set(_children())
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0)
    await until(lambda: _none_left_but(own), what="the adopted processes to end")


@pytest.mark.usefixtures("children_are_not_reaped")
async def test_a_zombie_postmaster_is_not_taken_for_a_running_one(
    server: Server,
) -> None:
    with server.hold():
        zombie = _kill_postmaster(server)
        await until(lambda: _state(zombie) == "Z")
        assert not server.status().running
        with server.hold() as url:
            assert await value(url, "SELECT 1") == 1
            assert server.status().pid != zombie


async def test_pid_file_with_the_pid_of_another_program_is_ignored(
    server: Server, stranger: int
) -> None:
    server.acquire().release()
    _write_pid_file(server, stranger)
    assert not server.status().running
    with server.hold() as url:
        assert await value(url, "SELECT 1") == 1
    assert _state(stranger) != "Z"


async def test_pid_file_with_the_pid_of_another_postgres_is_ignored(
    server: Server, expendable: Server
) -> None:
    other = expendable
    server.acquire().release()
    with other.hold() as other_url:
        pid = other.status().pid
        assert pid is not None
        _write_pid_file(server, pid)
        assert not server.status().running
        with server.hold() as url:
            assert await value(url, "SELECT 1") == 1
        assert await value(other_url, "SELECT 1") == 1


async def test_a_creation_that_was_interrupted_is_begun_anew(
    tmp_path: Path, server_on: Callable[[Path], Server]
) -> None:
    server = server_on(tmp_path / "penstock")
    with pytest.raises(EmbeddedError, match="There is no database"):
        server.url()
    server.stop()
    half = server.data_dir / "postgres.new-half"
    (server.data_dir).mkdir()
    (server.data_dir / "lock").touch()
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    with server.hold() as url:
        assert await value(url, "SELECT 1") == 1
    assert not half.exists()


def test_second_server_refuses_a_locked_folder(server: Server) -> None:
    with closing(LockedFile(server.data_dir / "server")) as lock:
        lock.lock()
        with pytest.raises(EmbeddedError, match="perhaps in another container"):
            server.acquire()
    assert server.status().holders == ()


def test_foreign_server_on_the_files_is_named_and_left_alone(server: Server) -> None:
    with server.hold():
        pid = server.status().pid
        pid_file = server.data_dir / "postgres" / "postmaster.pid"
        original = pid_file.read_text()
        pid_file.write_text(original.replace(str(server.status().socket_dir), "/elsewhere"))
        for use in (server.acquire, server.stop):
            with pytest.raises(EmbeddedError, match=f"did not start .process {pid}."):
                use()
        pid_file.write_text(original)


async def test_a_database_that_was_dropped_by_mistake_is_made_again(server: Server) -> None:
    with server.hold():
        await value(server.admin_url(), "DROP DATABASE penstock")
        with server.hold() as url:
            assert await value(url, "SELECT 1") == 1


def test_failed_start_raises_with_the_log_of_postgres(expendable: Server) -> None:
    settings = expendable.data_dir / "postgres" / "postgresql.conf"
    settings.write_text(settings.read_text() + "\nmax_connections = none\n")
    with pytest.raises(EmbeddedError, match=r"not start\. Its log says: .*invalid value.*FATAL"):
        expendable.acquire()
    assert expendable.status().holders == ()


@pytest.fixture
def stranger(server: Server) -> Iterator[int]:
    """A living process of the server's own account that is no Postgres."""
    account = account_for(server.data_dir / "postgres")
    process = subprocess.Popen(["sleep", "1000"], user=None if account.is_me else account.uid)
    yield process.pid
    process.kill()
    process.wait()


def _kill_postmaster(server: Server) -> int:
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def _write_pid_file(server: Server, pid: int) -> None:
    lines = [
        pid,
        server.data_dir / "postgres",
        0,
        5432,
        server.status().socket_dir,
        "",
        "",
        "ready",
    ]
    pid_file = server.data_dir / "postgres" / "postmaster.pid"
    pid_file.write_text("".join(f"{line}\n" for line in lines))


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _children() -> list[int]:
    return [child.pid for child in psutil.Process().children()]


def _none_left_but(own: set[int]) -> bool:
    adopted = [pid for pid in _children() if pid not in own]
    for pid in adopted:
        os.waitpid(pid, os.WNOHANG)
    return not adopted
