"""What the jobs of these tests do. Children import this module."""

import asyncio
import collections
import contextlib
import ctypes
import itertools
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import asyncpg

from penstock import Batch, Context, Fixed, Item, Process, task
from penstock.isolation.system import list_sockets

AT_ONCE = Fixed(0)


def linger() -> None:
    """Wait for what never comes, in small naps."""
    while True:
        time.sleep(0.01)


def wait_for(path: str) -> None:
    while not is_there(path):
        time.sleep(0.01)


def is_there(path: str) -> bool:
    return Path(path).exists()


def sign(path: str, pid: int | None = None) -> None:
    """Leave a process id for the test, whole or not at all."""
    draft = Path(f"{path}.draft")
    draft.write_text(str(pid or os.getpid()))
    draft.rename(path)


# Deaths


@task(isolate=Process(deaths=1))
def aborts() -> NoReturn:
    os.abort()


@task(isolate=Process(deaths=1))
def segfaults() -> None:
    ctypes.string_at(0)


@task(isolate=Process(deaths=1, memory="256MB"))
def bombs() -> None:
    held = []
    while len(held) < 100:  # Others need memory, too, should nobody look for a while.
        held.append(bytearray(4 * 2**20))
    linger()


@task(isolate=Process(deaths=1, time=0.3))
def spins_in_c() -> None:
    """Never gives the GIL back: neither a signal's handler nor another thread gets a turn."""
    collections.deque(itertools.repeat(None), maxlen=0)


@task(isolate=Process(deaths=1, grace=0.2), timeout=0.2, max_attempts=1)
def spins_past_its_timeout() -> None:
    collections.deque(itertools.repeat(None), maxlen=0)


@task(isolate=Process(deaths=1))
async def exits() -> None:
    os._exit(7)


@task(isolate=Process(deaths=1))
async def exits_with_0() -> None:
    os._exit(0)


@task(isolate=Process(deaths=1))
def hangs_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    linger()


@task(isolate=Process(deaths=1))
def waits_to_be_killed(path: str) -> None:
    sign(path)
    linger()


@task(isolate=Process(deaths=1))
def writes_garbage() -> None:
    write_everywhere(b"\xff" * 64)
    linger()


@task(isolate=Process(deaths=1))
def writes_what_could_be_a_length() -> None:
    """As text of two letters before a message of the child's own."""
    write_everywhere(b"\x10\x00")
    linger()


@task(isolate=Process(deaths=1))
def writes_garbage_and_crashes() -> None:
    write_everywhere(b"\xff" * 64)
    ctypes.string_at(0)


def write_everywhere(data: bytes) -> None:
    """Write to every socket of this process."""
    for file in list_sockets():
        with contextlib.suppress(OSError):
            os.write(file, data)


@task(isolate=Process(deaths=1))
def hangs_up_on_its_worker() -> None:
    """Closes every socket that it finds."""
    for file in list_sockets():
        os.close(file)
    linger()


@task(isolate=Process(deaths=1))
def prints_and_aborts(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    os.abort()


@task(isolate=Process(deaths=3), retry=AT_ONCE, max_attempts=20)
def dies_or_raises(ctx: Context, deaths: list[int]) -> int:
    """Dies in these attempts and raises in all others but the tenth."""
    if ctx.attempt in deaths:
        os._exit(1)
    if ctx.attempt < 10:
        raise ValueError("not yet")
    return ctx.attempt


# What does not notice


@task(isolate=True)
def in_child(path: str) -> int:
    wait_for(path)
    return os.getpid()


@task
async def on_loop(path: str) -> int:
    while not is_there(path):  # noqa: ASYNC110 - the test opens it, by a file
        await asyncio.sleep(0.01)
    return os.getpid()


@task
def in_thread(path: str) -> int:
    wait_for(path)
    return os.getpid()


@task(isolate=True)
def pid() -> int:
    return os.getpid()


@task(isolate=True)
async def async_pid() -> int:
    return os.getpid()


@task
async def plain_pid() -> int:
    return os.getpid()


@task(isolate=False)
async def never_isolated() -> int:
    return os.getpid()


# Stops


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


@task(isolate=Process(grace=0.1))
async def deaf_sleeper(path: str) -> None:
    deaf()
    sign(path)
    linger()


@task(isolate=Process(grace=0.1))
async def deaf_spinner(path: str) -> None:
    deaf()
    sign(path)
    collections.deque(itertools.repeat(None), maxlen=0)


@task(isolate=Process(grace=5))
def heeds(ctx: Context, path: str) -> None:
    sign(path)
    while not ctx.cancelled:
        time.sleep(0.01)


@task(isolate=Process(grace=5))
async def waits(path: str) -> None:
    sign(path)
    await asyncio.Event().wait()


@task(isolate=Process(grace=5), timeout=0.1, max_attempts=1)
async def late_async() -> None:
    await asyncio.Event().wait()


@task(isolate=Process(grace=5), timeout=0.1, max_attempts=1)
def late_sync(ctx: Context) -> None:
    while not ctx.cancelled:
        time.sleep(0.01)


@task(isolate=Process(deaths=1, grace=0.1))
def starts_others(path: str) -> None:
    other = subprocess.Popen(["sleep", "1000"])
    sign(path, other.pid)
    linger()


def main_loop(channel: object, limits_page: object, row: int, path: str) -> None:
    """Not a job: all that a child does."""
    other = subprocess.Popen(["sleep", "1000"])
    sign(path, other.pid)
    linger()


# Wear


@task(isolate=Process(retire_after=3))
def wears_out() -> int:
    return os.getpid()


KEPT: list[bytearray] = []


@task(isolate=Process(memory="512MB", retire_above="150MB"))
def leaks() -> int:
    KEPT.append(bytearray(32 * 2**20))
    return os.getpid()


@task(isolate=True)
def signs_and_waits(note: str, gate: str) -> int:
    sign(note)
    wait_for(gate)
    return os.getpid()


@task(isolate=False)
def forks_in_worker(note: str, gate: str) -> None:
    """Leave a process that ends when the test says so."""
    if os.fork() == 0:
        sign(note)
        wait_for(gate)
        os._exit(0)


@task(isolate=Process(grace=20))
def stubborn(path: str) -> None:
    sign(path)
    linger()


@task(isolate=Process(grace=20))
def spins_until_killed(path: str) -> None:
    sign(path)
    collections.deque(itertools.repeat(None), maxlen=0)


LEFT: list[asyncio.Task[None]] = []


@task(isolate=True)
async def leaves_what_blocks() -> int:
    """Ends, and something of it keeps its child from hearing anything."""

    async def block() -> None:
        linger()

    LEFT.append(asyncio.create_task(block()))
    return os.getpid()


@task(batch=Batch(size=4), timeout=0.1, max_attempts=1)
async def goes_on(items: list[Item[str]]) -> None:
    """Does not mind that all its items are told to stop."""
    while not all(is_there(item.value) for item in items):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


@task
async def signs_on_loop(note: str, gate: str) -> int:
    """Runs in the worker, unless it was lost with one."""
    sign(note)
    while not is_there(gate):  # noqa: ASYNC110 - the test opens it, by a file
        await asyncio.sleep(0.01)
    return os.getpid()


@task(isolate=Process(deaths=1))
def poisoned_once() -> int:
    """One death would be its last."""
    return os.getpid()


@task(isolate=True)
async def pays(ctx: Context, url: str) -> None:
    """Its effect is a row in the same Postgres, written exactly once."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO public.paid VALUES ($1)", int(ctx.job.id))
            await ctx.complete(connection)
    finally:
        await connection.close()


@task(isolate=Process(deaths=2), retry=AT_ONCE)
def kills_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@task(batch=Batch(size=4))
async def many_pids(items: list[Item[int]]) -> list[int]:
    return [os.getpid() for _ in items]


def double(number: int) -> int:
    logging.getLogger("tests.isolation").warning("doubling %d", number)
    return 2 * number


@task(isolate=Process(deaths=1, time=60))
def uses_processes() -> list[int]:
    fork = multiprocessing.get_context("fork")
    for _ in range(10):
        other = fork.Process(target=linger)
        other.start()
        other.terminate()
        other.join()
    with fork.Pool(2) as pool:
        return pool.map(double, range(4))


# Suspects


@task
async def is_marked(ctx: Context, url: str) -> bool:
    connection = await asyncpg.connect(url)
    try:
        asked = "SELECT begun_token = token FROM penstock.job WHERE id = $1"
        return await connection.fetchval(asked, int(ctx.job.id))
    finally:
        await connection.close()


@task
async def attempt(ctx: Context) -> int:
    return ctx.attempt


@task(isolate=False)
async def kills_its_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@task(retry=AT_ONCE)
async def kills_its_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
