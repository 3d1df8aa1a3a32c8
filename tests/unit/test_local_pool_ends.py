"""A local pool ends within its time, whatever its calls do, and loses no count."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from penstock import LocalPool, PoolCounts
from penstock.local_pool import core
from tests.fixtures.until import until


async def test_a_drain_takes_no_more_and_finishes_what_it_has() -> None:
    pool = LocalPool(workers=1)
    go_on = asyncio.Event()
    pool.submit(go_on.wait)
    pool.submit(int)
    draining = asyncio.ensure_future(pool.drain())
    await until(lambda: pool._core.queue.closed)
    assert not pool.submit(int)
    assert pool.counts == PoolCounts(submitted=3, dropped=1, waiting=1, running=1)
    go_on.set()
    assert await draining == 0
    assert not pool.submit(int)
    assert pool.counts == PoolCounts(submitted=4, done=2, dropped=2)


async def test_what_is_left_after_the_time_is_dropped_and_counted() -> None:
    release, cleaned_up = threading.Event(), asyncio.Event()

    async def stuck() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up.set()

    pool = LocalPool(workers=2)
    for call in (stuck, release.wait, int, int):
        pool.submit(call)
    await until(lambda: pool.counts.running == 2)
    assert await pool.drain(0.05) == 4
    assert cleaned_up.is_set()
    assert pool.counts == PoolCounts(submitted=4, dropped=4)
    release.set()  # Nobody minds any more how it ends.
    assert await pool.drain() == 0
    assert pool.counts == PoolCounts(submitted=4, dropped=4)


async def test_a_task_that_will_not_stop_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "CANCEL_TIMEOUT_S", 0.05)
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    pool = LocalPool()
    pool.submit(stubborn)
    await asyncio.sleep(0)
    began = time.monotonic()
    assert await pool.drain(0.05) == 1
    assert time.monotonic() - began < 30
    release.set()


async def test_whoever_gives_up_draining_drops_the_rest() -> None:
    pool = LocalPool()
    pool.submit(asyncio.Event().wait)
    draining = asyncio.ensure_future(pool.drain())
    await until(lambda: pool._core.queue.closed)
    draining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await draining
    assert pool.counts == PoolCounts(submitted=1, dropped=1)


async def test_idle_says_when_it_takes_too_long() -> None:
    async with LocalPool() as pool:
        go_on = asyncio.Event()
        pool.submit(go_on.wait)
        with pytest.raises(TimeoutError):
            await pool.idle(0.01)
        go_on.set()
        await pool.idle(30)


async def test_idle_waits_also_for_what_calls_submit() -> None:
    async def again(times: int) -> None:
        if times:
            pool.submit(again, times - 1)

    async with LocalPool(workers=1) as pool:
        pool.submit(again, 5)
        await pool.idle(30)
        assert pool.counts.done == 6


def test_calls_on_a_loop_that_ends_are_dropped_with_it() -> None:
    pool = LocalPool(workers=2)
    done = threading.Event()

    async def leave() -> None:
        for _ in range(5):
            pool.submit(asyncio.Event().wait)
        pool.submit(done.set)
        await asyncio.sleep(0)

    async def come_back() -> None:
        assert pool.submit(asyncio.sleep, 0)
        await pool.idle(30)

    asyncio.run(leave())
    assert done.wait(30)
    pool.sync.idle(30)
    assert pool.counts == PoolCounts(submitted=6, done=1, dropped=5)
    asyncio.run(come_back())
    assert pool.counts == PoolCounts(submitted=7, done=2, dropped=5)


async def test_a_call_that_is_cancelled_alone_takes_no_other_with_it() -> None:
    go_on = asyncio.Event()

    async def give_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async with LocalPool(workers=2) as pool:
        for call in (go_on.wait, give_up, asyncio.sleep):
            pool.submit(call, *([0] if call is asyncio.sleep else []))
        await until(lambda: pool.counts.done == 1, what="the one that waited")
        assert pool.counts == PoolCounts(submitted=3, done=1, dropped=1, running=1)
        go_on.set()
        await pool.idle(30)
        assert pool.counts == PoolCounts(submitted=3, done=2, dropped=1)


def test_unstarted_calls_are_dropped_when_their_loop_ends() -> None:
    pool = LocalPool(workers=2)

    async def leave() -> None:
        for _ in range(5):
            pool.submit(asyncio.sleep, 0)

    asyncio.run(leave())
    assert pool.counts == PoolCounts(submitted=5, dropped=5)


def test_calls_on_a_loop_that_was_only_closed_are_dropped() -> None:
    pool = LocalPool(workers=2)

    async def leave() -> None:
        pool.submit(asyncio.sleep, 60)
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    assert pool.counts == PoolCounts(submitted=1, running=1)  # it might run again
    [call] = pool._core.queue._running
    call.task._log_destroy_pending = False  # type: ignore[union-attr]
    loop.close()
    assert pool.counts == PoolCounts(submitted=1, dropped=1)


def test_a_program_without_a_loop_has_one_started() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def where() -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    with LocalPool() as pool:
        for _ in range(50):
            assert pool.submit(where)
        pool.sync.idle(30)
        assert pool.counts == PoolCounts(submitted=50, done=50)
    assert len(set(loops)) == 1
    assert not pool.submit(where)


def test_calls_are_dropped_when_no_loop_can_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.events, "new_event_loop", refuse)
        with LocalPool(workers=1) as pool:
            for _ in range(3):
                pool.submit(asyncio.sleep, 0)
            assert pool.sync.drain(30) == 0
    assert pool.counts == PoolCounts(submitted=3, dropped=3)
    assert "Too many open files" in caplog.text


def test_a_pool_can_be_drained_while_its_loop_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go_on = threading.Event(), threading.Event()
    make = asyncio.new_event_loop

    def slow() -> asyncio.AbstractEventLoop:
        asked.set()
        go_on.wait(30)
        return make()

    monkeypatch.setattr(asyncio.events, "new_event_loop", slow)
    pool = LocalPool()
    pool.submit(asyncio.sleep, 0)
    assert asked.wait(30)
    began = time.monotonic()
    assert pool.sync.drain(0) == 1
    assert time.monotonic() - began < 10
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "penstock local loop":
            thread.join(30)
            assert not thread.is_alive()


def test_a_program_without_a_loop_ends_in_time() -> None:
    began, cancelled = threading.Event(), threading.Event()

    async def stuck() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    pool = LocalPool()
    pool.submit(stuck)
    assert began.wait(30)
    assert pool.sync.drain(0.05) == 1
    assert cancelled.wait(30)


def test_idle_for_code_that_blocks_says_when_it_takes_too_long() -> None:
    release = threading.Event()
    with LocalPool() as pool:
        pool.submit(release.wait)
        with pytest.raises(TimeoutError):
            pool.sync.idle(0.01)
        release.set()
        pool.sync.idle(30)


@pytest.mark.parametrize("wait", [lambda pool: pool.sync.idle(), lambda pool: pool.sync.drain()])
async def test_on_a_loop_it_says_to_await_instead(wait: Callable[[LocalPool], object]) -> None:
    with pytest.raises(RuntimeError, match="await pool"):
        wait(LocalPool())


async def test_a_signal_of_a_loop_is_heard_by_all_who_wait() -> None:
    async with LocalPool() as pool:
        go_on = threading.Event()
        pool.submit(go_on.wait)
        waits: list[Awaitable[None]] = [
            pool.idle(30),
            asyncio.to_thread(pool.sync.idle, 30),
            pool.idle(30),
        ]
        waiting = asyncio.gather(*waits)
        await until(lambda: len(pool._core.queue._waits) == 3)
        go_on.set()
        await waiting
        assert pool._core.queue._waits == []


def run_script(text: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_a_script_that_just_ends_has_its_calls_made() -> None:
    said = run_script("""
import time
from penstock import LocalPool

def slow(number: int) -> None:
    time.sleep(0.01)
    print(f"{number}\\n", end="", flush=True)

pool = LocalPool(workers=2)
for number in range(10):
    pool.submit(slow, number)
""")
    assert sorted(map(int, said.split())) == list(range(10))


def test_a_forked_child_begins_anew() -> None:
    said = run_script("""
import os, threading
from penstock import LocalPool

pool = LocalPool(workers=1)
release = threading.Event()
pool.submit(release.wait)
pool.submit(print, "of the parent", flush=True)
with pool._core.queue._lock:
    child = os.fork()
if not child:
    assert pool.counts.submitted == 0
    pool.submit(print, "of the child", flush=True)
    pool.sync.drain(30)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
release.set()
pool.sync.drain(30)
""")
    assert said.splitlines() == ["of the child", "of the parent"]
