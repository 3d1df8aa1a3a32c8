"""A local pool runs calls that may be dropped, and whoever submits never waits."""

import asyncio
import functools
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from penstock import LocalPool, PoolCounts, task
from penstock.errors import ConfigError
from penstock.local_pool.runner import DROP_LOG_INTERVAL_S
from penstock.telemetry import CallsDropped
from tests.fixtures.until import until

USER: ContextVar[str] = ContextVar("USER", default="nobody")


def sum_of(counts: PoolCounts) -> int:
    return counts.done + counts.failed + counts.dropped + counts.waiting + counts.running


@contextmanager
def all_busy(pool: LocalPool) -> Iterator[None]:
    """Every worker has a call that blocks until the end of this."""
    release = threading.Event()
    for _ in range(pool.workers):
        assert pool.submit(release.wait)
    try:
        yield
    finally:
        release.set()


async def test_async_functions_run_on_the_loop_and_others_in_threads() -> None:
    seen: dict[str, Any] = {}

    async def on_loop(word: str, *, loud: bool) -> None:
        seen["loop"] = (word, loud, threading.current_thread(), asyncio.get_running_loop())

    def in_thread(word: str, *, loud: bool) -> None:
        seen["thread"] = (word, loud, threading.current_thread().name)

    async with LocalPool("track") as pool:
        assert pool.submit(on_loop, "a", loud=True)
        assert pool.submit(in_thread, "b", loud=False)
        assert seen.get("loop") is None  # it is only begun
        await pool.idle(30)
    here = threading.current_thread(), asyncio.get_running_loop()
    assert seen["loop"] == ("a", True, *here)
    assert seen["thread"] == ("b", False, "penstock track")
    assert pool.counts == PoolCounts(submitted=2, done=2)


async def test_whatever_can_be_called_is_taken() -> None:
    seen: list[str] = []

    class Tracker:
        async def __call__(self) -> None:
            await asyncio.sleep(0)
            seen.append("object")

        async def method(self) -> None:
            await asyncio.sleep(0)
            seen.append("method")

    async def named(name: str) -> None:
        await asyncio.sleep(0)
        seen.append(name)

    @task
    async def job(name: str) -> None:
        await named(name)

    async with LocalPool() as pool:
        for fn in (Tracker(), Tracker().method, functools.partial(named, "partial")):
            pool.submit(fn)
        pool.submit(job, "task")
        pool.submit(seen.append, "built-in")
        await pool.idle(30)
    assert sorted(seen) == ["built-in", "method", "object", "partial", "task"]


@pytest.mark.parametrize("workers", [1, 3])
async def test_pool_drops_calls_beyond_its_workers_and_slots(workers: int) -> None:
    async with LocalPool(workers=workers, slots=5) as pool:
        with all_busy(pool):
            taken = [pool.submit(int) for _ in range(8)]
            assert taken == [True] * 5 + [False] * 3
            assert pool.counts == PoolCounts(
                submitted=workers + 8, dropped=3, waiting=5, running=workers
            )
        await pool.idle(30)
        assert pool.submit(int)
        await pool.idle(30)
        assert pool.counts == PoolCounts(submitted=workers + 9, done=workers + 6, dropped=3)


async def test_both_kinds_share_the_workers_and_go_in_order() -> None:
    order: list[int] = []

    async def later(number: int) -> None:
        order.append(number)

    async with LocalPool(workers=1) as pool:
        with all_busy(pool):
            for number in range(20):
                pool.submit(later if number % 3 else order.append, number)
            assert pool.counts.waiting == 20
        await pool.idle(30)
    assert order == list(range(20))


async def test_with_no_slots_only_what_can_begin_is_taken() -> None:
    async with LocalPool(workers=1, slots=0) as pool:
        with all_busy(pool):
            assert not pool.submit(int)
        await pool.idle(30)
        assert pool.submit(int)


async def test_eight_threads_never_wait_though_nothing_moves() -> None:
    """The loop stands still and all workers are stuck, so what submit waited for would not come."""
    pool = LocalPool(slots=100)
    most_waiting: list[int] = []

    def submit_many() -> None:
        for _ in range(10_000):
            pool.submit(asyncio.sleep, 0)
        most_waiting.append(pool.counts.waiting)

    async with pool:
        with all_busy(pool):
            threads = [threading.Thread(target=submit_many) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:  # This blocks the loop, and it is meant to.
                thread.join(30)
            assert not any(thread.is_alive() for thread in threads)
            assert most_waiting == [100] * 8
            counts = pool.counts
            assert counts == PoolCounts(
                submitted=80_016, dropped=79_900, waiting=100, running=pool.workers
            )
        await pool.idle(30)
    assert sum_of(pool.counts) == pool.counts.submitted == 80_016
    assert pool.counts.done == 116


async def test_counts_add_up_at_any_moment() -> None:
    def fails() -> None:
        raise ValueError

    async def awaits() -> None:
        await asyncio.sleep(0)

    async with LocalPool(workers=4, slots=8) as pool:
        stop = threading.Event()
        seen: list[PoolCounts] = []

        def submit_many() -> None:
            while not stop.is_set():
                for fn in (fails, awaits, int):
                    pool.submit(fn)
                seen.append(pool.counts)

        threads = [threading.Thread(target=submit_many) for _ in range(4)]
        for thread in threads:
            thread.start()
        await until(lambda: len(seen) > 300)
        stop.set()
        await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
        await pool.idle(30)
        seen.append(pool.counts)
    assert all(sum_of(counts) == counts.submitted for counts in seen)
    assert all(counts.running <= 4 and counts.waiting <= 8 for counts in seen)
    assert min(seen[-1].done, seen[-1].failed) > 0


async def test_the_lock_is_free_while_others_code_runs() -> None:
    """A call, a log handler and a subscriber may have another thread submit, and wait for it."""
    pool = LocalPool(workers=1, slots=0)
    seen: list[bool] = []

    def ask_in_a_thread(*_: object) -> None:
        thread = threading.Thread(target=lambda: seen.append(bool(pool.counts.submitted)))
        thread.start()
        thread.join(30)

    handler = logging.Handler()
    handler.emit = ask_in_a_thread  # type: ignore[method-assign]
    logger = logging.getLogger("penstock.local_pool")
    logger.addHandler(handler)
    pool._core.host.events.subscribe(CallsDropped, ask_in_a_thread)
    try:
        async with pool:
            with all_busy(pool):
                pool.submit(int)
            await pool.idle(30)
            pool.submit(ask_in_a_thread)
    finally:
        logger.removeHandler(handler)
    assert seen == [True] * 3


async def test_a_signal_handler_may_submit_in_the_middle_of_a_submit() -> None:
    async with LocalPool(workers=2, slots=2) as pool:
        before = signal.signal(signal.SIGUSR1, lambda *_: pool.submit(int))
        try:
            with pool._core.queue._lock:
                signal.raise_signal(signal.SIGUSR1)
        finally:
            signal.signal(signal.SIGUSR1, before)
        await pool.idle(30)
        assert pool.counts.done == 1


async def test_context_variables_go_along() -> None:
    seen: list[tuple[str, str]] = []

    async def on_loop() -> None:
        seen.append(("loop", USER.get()))
        USER.set("changed")

    def in_thread() -> None:
        seen.append(("thread", USER.get()))
        USER.set("changed")

    async with LocalPool(workers=1) as pool:
        with all_busy(pool):
            for name in ("ada", "bob"):
                USER.set(name)
                pool.submit(on_loop)
                pool.submit(in_thread)
        await pool.idle(30)
    assert seen == [(kind, name) for name in ("ada", "bob") for kind in ("loop", "thread")]
    assert USER.get() == "bob"


class Secret(Exception):
    pass


def raise_it(error: BaseException) -> None:
    raise error


async def raise_it_on_the_loop(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("call", [raise_it, raise_it_on_the_loop])
@pytest.mark.parametrize(
    "error", [Secret("4711"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()]
)
async def test_what_is_raised_is_logged_by_its_type_and_counted(
    call: Callable[[BaseException], Any],
    error: BaseException,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "penstock"):
        async with LocalPool("track") as pool:
            assert pool.submit(call, error)
            await pool.idle(30)
            assert pool.submit(int)  # the next one is none the worse
            await pool.idle(30)
    assert pool.counts == PoolCounts(submitted=2, done=1, failed=1)
    assert call.__name__ in caplog.text
    assert type(error).__name__ in caplog.text
    assert "4711" not in caplog.text
    assert "Traceback" not in caplog.text


async def test_the_traceback_is_there_for_who_debugs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "penstock"):
        async with LocalPool() as pool:
            pool.submit(raise_it, Secret("4711"))
    assert "Secret: 4711" in caplog.text


async def test_work_that_nobody_has_awaited_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        async with LocalPool() as pool:
            pool.submit(lambda: asyncio.sleep(0))
    assert pool.counts.failed == 1
    assert "submit an `async def` that awaits it" in caplog.text


async def test_what_is_no_function_is_refused_at_once() -> None:
    pool = LocalPool()
    with pytest.raises(TypeError, match="not a coroutine"):
        pool.submit(asyncio.sleep(0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not 5"):
        pool.submit(5)  # type: ignore[arg-type]
    assert pool.counts == PoolCounts()


async def test_drops_are_told_at_most_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pool = LocalPool("track", workers=1, slots=0)
    told: list[CallsDropped] = []
    pool._core.host.events.subscribe(CallsDropped, told.append)
    with caplog.at_level(logging.WARNING, "penstock"):
        with all_busy(pool):
            for _ in range(5):
                pool.submit(int)
            assert told == [CallsDropped("track", 1)]
            now += DROP_LOG_INTERVAL_S + 1
            pool.submit(int)
            assert told[1:] == [CallsDropped("track", 5)]
            pool.submit(int)
        await pool.drain()
        assert told[2:] == [CallsDropped("track", 1)]
    assert sum("has dropped calls" in line for line in caplog.messages) == 3
    assert pool.counts.dropped == sum(event.count for event in told)


@pytest.mark.parametrize(
    ("given", "setting"),
    [({"workers": 0}, "workers"), ({"slots": -1}, "slots"), ({"slots": 1.5}, "slots")],
)
def test_sizes_that_make_no_sense_are_refused(given: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as told:
        LocalPool(**given)
    assert told.value.setting == setting
