"""A process that is ours alone: its event loop, how it collects garbage, how the loop ends."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.worker.whereabouts import where

T = TypeVar("T")

# A claim makes thousands of small objects that die with their jobs, without a cycle among them.
# With Python's own threshold the collector looks at them again and again: a tenth of the time.
GARBAGE = (100_000, 50, 100)
# How long tasks, and threads that they started, may take to end when the loop ends.
END_WAIT = 1.0
THREADS = "penstock to_thread"

# Where the tasks are that did not end when they were cancelled. Nobody can wait for them.
unended: list[str] = []


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a whole process."""
    own = runner()
    threads = ThreadPoolExecutor(thread_name_prefix=THREADS)
    own.get_loop().set_default_executor(threads)
    try:
        return own.run(main)
    finally:
        end(own, threads)


def runner() -> asyncio.Runner:
    """Runs a whole process: on uvloop where there is one, with a collector that is seldom called.

    A worker inside somebody's program leaves both as it finds them.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    try:
        import uvloop
    except ImportError:  # It has no wheel for every platform, and none for Windows.
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def end(own: asyncio.Runner, threads: ThreadPoolExecutor) -> None:
    """End the loop. `asyncio.Runner` waits for each task and thread, even for ever: this does not,
    and leaves a loop open on which something still runs."""
    own.get_loop().run_until_complete(_end_tasks())
    threads.shutdown(wait=False, cancel_futures=True)
    ends_at = time.monotonic() + END_WAIT
    started = [one for one in threading.enumerate() if one.name.startswith(THREADS)]
    for thread in started:
        thread.join(max(ends_at - time.monotonic(), 0.0))
    if not unended and not any(thread.is_alive() for thread in started):
        own.close()


async def _end_tasks() -> None:
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    if tasks := [task for task in asyncio.all_tasks() if task is not this]:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=END_WAIT)
    tasks.append(loop.create_task(loop.shutdown_asyncgens()))
    await asyncio.wait(tasks[-1:], timeout=END_WAIT)
    unended.extend(where(task) for task in tasks if not task.done())
