"""Who starts the server, who keeps it running and who stops it."""

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.embedded import Server
from tests.embedded.holder import Holder
from tests.embedded.query import value
from tests.fixtures.until import until

StartHolder = Callable[[Path], Holder]


async def test_racing_processes_share_one_server(
    tmp_path: Path, server_on: Callable[[Path], Server], holder: StartHolder
) -> None:
    server = server_on(tmp_path / "fresh")
    holders = [holder(server.data_dir) for _ in range(4)]
    urls = {each.url() for each in holders}
    assert urls == {server.url()}
    assert await value(server.url(), "SELECT current_user::text") == "penstock"
    assert set(server.status().holders) == {each.pid for each in holders}


def test_racing_threads_share_one_server(
    tmp_path: Path, server_on: Callable[[Path], Server]
) -> None:
    server = server_on(tmp_path / "fresh")
    with ThreadPoolExecutor(6) as threads:
        holds = list(threads.map(lambda _: Server(server.data_dir).acquire(), range(6)))
        assert server.status().holders == (os.getpid(),) * 6
        assert {hold.url for hold in holds} == {server.url()}
        list(threads.map(lambda hold: hold.release(), holds))
    assert not server.status().running


def test_the_last_one_out_stops_the_server(server: Server, holder: StartHolder) -> None:
    first, second = holder(server.data_dir), holder(server.data_dir)
    first.url(), second.url()
    first.end()
    assert server.status().running
    second.end()
    assert not server.status().running


def test_a_holder_that_was_killed_does_not_count(server: Server, holder: StartHolder) -> None:
    killed = holder(server.data_dir)
    killed.url()
    with server.hold():
        killed.kill()
        assert server.status().holders == (os.getpid(),)
    assert not server.status().running


async def test_watcher_stops_the_server_when_all_holders_are_killed(
    server: Server, holder: StartHolder
) -> None:
    holders = [holder(server.data_dir) for _ in range(2)]
    for each in holders:
        each.url()
    for each in holders:
        each.kill()
    await until(lambda: not server.status().running, what="the watcher to stop the server")


async def test_holder_killed_during_the_start_leaves_no_server(
    tmp_path: Path, server_on: Callable[[Path], Server], holder: StartHolder
) -> None:
    server = server_on(tmp_path / "fresh")
    killed = holder(server.data_dir)
    await until((server.data_dir / "postgres").exists, what="the files to be created")
    killed.kill()
    await until(lambda: not server.status().holders)
    with server.hold() as url:
        assert await value(url, "SELECT 1") == 1
    assert not server.status().running


async def test_the_server_stays_when_another_watcher_is_killed(
    server: Server, holder: StartHolder
) -> None:
    with server.hold() as url:
        os.kill(await until(lambda: _watcher(server)), signal.SIGKILL)
        holder(server.data_dir).url()
        await until(lambda: _watcher(server), what="the next holder to bring a new watcher")
        assert await value(url, "SELECT 1") == 1


async def test_the_watcher_leaves_with_the_server(server: Server) -> None:
    server.acquire().release()
    await until(lambda: not _watcher(server))


def test_a_hold_is_released_only_once(server: Server) -> None:
    first, second = server.acquire(), server.acquire()
    first.release()
    first.release()
    assert server.status().running
    second.release()
    assert not server.status().running


def test_forked_child_neither_releases_nor_inherits_a_hold(
    server: Server, holder: StartHolder
) -> None:
    parent = holder(server.data_dir)
    parent.url()
    parent.fork_a_child_that_releases()
    assert server.status().holders == (parent.pid,)
    with server.hold():
        parent.kill()
        assert server.status().holders == (os.getpid(),)


def test_started_server_outlives_its_holders(server: Server) -> None:
    server.start()
    server.acquire().release()
    status = server.status()
    assert status.running
    assert status.persistent
    server.stop()
    assert not server.status().running
    assert not server.status().persistent


async def test_acquire_may_be_called_in_a_thread_of_an_async_program(server: Server) -> None:
    hold = await asyncio.to_thread(server.acquire)
    assert await value(hold.url, "SELECT 1") == 1
    await asyncio.to_thread(hold.release)


def _watcher(server: Server) -> int:
    """Its process id, 0 if there is none."""
    for pid in (entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            words = Path("/proc", pid, "cmdline").read_text().split("\0")
        except OSError:
            continue
        if "penstock.embedded" in words and str(server.data_dir) in words:
            return int(pid)
    return 0
