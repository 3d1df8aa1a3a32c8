"""Servers of their own: these tests start, stop and kill them."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from penstock.embedded import Server
from penstock.embedded.folder import has_owner
from tests.embedded.holder import Holder
from tests.fixtures.until import until


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PENSTOCK_DATA_DIR", "PENSTOCK_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database, made once: that takes longer than many a test."""
    server = Server(tmp_path_factory.mktemp("made") / "penstock")
    server.acquire().release()
    return server.data_dir


@pytest.fixture
async def server(made: Path) -> AsyncIterator[Server]:
    """A server that does not run; a test may kill it but must not spoil its files."""
    server = Server(made)
    yield server
    server.stop()
    await until(lambda: not has_owner(made / "watcher"), what="the watcher to leave")


@pytest.fixture(scope="module")
def running(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that runs, for tests that only look at it."""
    server = Server(shutil.copytree(made, tmp_path_factory.mktemp("running") / "penstock"))
    with server.hold():
        yield server


@pytest.fixture
def expendable(made: Path, tmp_path: Path, server_on: Callable[[Path], Server]) -> Server:
    """A server that does not run, with files of its own."""
    return server_on(shutil.copytree(made, tmp_path / "penstock"))


@pytest.fixture
def server_on() -> Iterator[Callable[[Path], Server]]:
    """Servers on folders of the test's choice, stopped after it."""
    servers: list[Server] = []

    def server(data_dir: Path, bin_dir: Path | None = None) -> Server:
        servers.append(Server(data_dir, bin_dir=bin_dir))
        return servers[-1]

    yield server
    for each in servers:
        each.stop("immediate")


@pytest.fixture
def holder() -> Iterator[Callable[..., Holder]]:
    """Start other processes that hold a server; killed after the test if still there."""
    holders: list[Holder] = []

    def start(data_dir: Path, **options: tuple[str, ...]) -> Holder:
        holders.append(Holder(data_dir, **options))
        return holders[-1]

    yield start
    for each in holders:
        each.close()
