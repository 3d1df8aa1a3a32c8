"""What handlers can do from inside a child process. Children import this module."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from penstock import (
    Cache,
    Context,
    Database,
    Fixed,
    Penstock,
    Process,
    StaleAttempt,
    Workflow,
    task,
)
from penstock.tasks import Task

logger = logging.getLogger("tests.isolation")

# Where a child finds the test's database and folder.
URL, FOLDER = "TEST_ISOLATION_URL", "TEST_ISOLATION_FOLDER"

app = Penstock(os.environ.get(URL, "postgresql://nobody@nowhere/nothing"))


def note(text: str) -> None:
    """Write a line for the test to read."""
    with (Path(os.environ[FOLDER]) / "notes").open("a") as file:
        file.write(f"{text}\n")


# Progress and logs


@task(isolate=True)
def tells(ctx: Context) -> None:
    for done in range(1, 1001):
        ctx.progress(done, 1000, f"row {done}")
    ctx.logger.info("from %s", "inside", extra={"colour": "blue"})
    logger.warning("plain %d", 1)
    try:
        raise ValueError("what went wrong")
    except ValueError:
        logger.exception("caught")


@task(isolate=True)
def tells_oddly(ctx: Context) -> None:
    logger.warning("read %s", "caf\udce9.pdf", extra={"path": "caf\udce9.pdf", "size": 2**70})
    for done in range(3):
        ctx.progress(done, 3, Path("plain"))  # type: ignore[arg-type]
        ctx.progress(done, 3, "caf\udce9.pdf")


# Budgets


@task(isolate=True, max_attempts=1)
async def spends(ctx: Context) -> float:
    async with ctx.budget("tokens", units=50) as budget:
        budget.settle(20)
    await ctx.close_bucket("other", 60)
    return budget.units


@task(isolate=True, max_attempts=1)
def spends_in_thread(ctx: Context) -> None:
    with ctx.sync.budget("tokens", units=30) as budget:
        budget.settle(10)


@task(isolate=True, max_attempts=1)
async def spends_too_much(ctx: Context) -> None:
    async with ctx.budget("tokens", units=90):
        raise AssertionError("it must wait")


@task(isolate=True, max_attempts=1, limits="api")
async def is_refused() -> None:
    request = httpx.Request("GET", "http://api.test")
    response = httpx.Response(429, headers={"Retry-After": "60"}, request=request)
    raise httpx.HTTPStatusError("too many", request=request, response=response)


# Steps and waits


async def double(number: int) -> int:
    note(f"double {number}")
    return 2 * number


def triple(number: int) -> int:
    note(f"triple {number}")
    return 3 * number


@task(isolate=True, retry=Fixed(0))
async def steps(ctx: Context) -> list[int]:
    found = [await ctx.step("double", double, 4), await ctx.step("kept", double, 5, cache=Cache())]
    if ctx.attempt == 1:
        raise ValueError("after the steps")
    return found


@task(isolate=True, retry=Fixed(0))
def steps_in_thread(ctx: Context) -> list[int]:
    found = [ctx.sync.step("triple", triple, 4), ctx.sync.step("kept", triple, 5, cache=Cache())]
    if ctx.attempt == 1:
        os._exit(1)
    return found


async def look() -> str | None:
    note("look")
    asked = (Path(os.environ[FOLDER]) / "notes").read_text().count("look")
    return "there" if asked == 2 else None


@task(isolate=True)
async def waits_for_all(ctx: Context) -> list[Any]:
    await ctx.sleep(0.05)
    event = await ctx.wait_for_event(f"event of {ctx.job.id}")
    return [event, await ctx.poll("look", look, every=0.01)]


@task(isolate=True)
def waits_in_thread(ctx: Context) -> Any:
    ctx.sync.sleep(0.05)
    return ctx.sync.wait_for_event(f"event of {ctx.job.id}")


@task(isolate=True, max_attempts=1)
async def twice(ctx: Context) -> None:
    await ctx.step("one", double, 1)
    await ctx.step("one", double, 1)


LEFT: list[asyncio.Task[None]] = []


@task(isolate=True)
async def leaves_a_task_behind(ctx: Context, gate: str) -> None:
    async def late() -> None:
        while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - the test opens it, by a file
            await asyncio.sleep(0.01)
        ctx.progress(1, 2, "late")
        try:
            await ctx.step("late", double, 1)
        except StaleAttempt as error:
            note(f"stale {error.job_id}")

    LEFT.append(asyncio.create_task(late()))


@task(isolate=True)
def has_no_steps(ctx: Context, gate: str) -> str:
    """Opens the gate of another, and waits for what comes of that."""
    Path(gate).touch()
    notes = Path(os.environ[FOLDER]) / "notes"
    while "stale" not in (told := notes.read_text() if notes.exists() else ""):
        time.sleep(0.01)
    return told


# Workflows


@task(isolate=True)
async def part(number: int) -> int:
    return number


@task(isolate=True)
async def split(ctx: Context) -> list[str]:
    more = Workflow()
    for number in (1, 2):
        more.add(part.prepare(number), name=f"part {number}", after=ctx.job, before="merge")
    return sorted(await ctx.extend(more))


@task(isolate=True)
def merge(ctx: Context) -> dict[str, Any]:
    return {name: each.result for name, each in ctx.sync.parents().items()}


# The database


@task(isolate=True)
async def completes(ctx: Context) -> None:
    connection = await asyncpg.connect(app.url)
    try:
        async with connection.transaction():
            await ctx.fence(connection)
            await ctx.complete(connection, {"by": os.getpid()})
    finally:
        await connection.close()


@task(isolate=True, max_attempts=1)
async def rolls_back(ctx: Context) -> None:
    connection = await asyncpg.connect(app.url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await ctx.complete(connection)
        await transaction.rollback()
    finally:
        await connection.close()


@task(isolate=True)
async def enqueues() -> str:
    return (await app.enqueue(part, 10)).id


@task(isolate=True)
def enqueues_in_thread() -> str:
    return app.sync.enqueue(part, 11).id


# Resources


class Model:
    """Something costly."""


class Broken:
    """Something that cannot be had."""


@asynccontextmanager
async def open_model() -> AsyncIterator[Model]:
    note(f"open {os.getpid()}")
    yield Model()
    await asyncio.sleep(0.3)
    note(f"close {os.getpid()}")


@asynccontextmanager
async def open_broken() -> AsyncIterator[Broken]:
    raise ConnectionError("no such thing")
    yield Broken()


class Whereabouts:
    """Where the worker works."""

    def __init__(self, database: Database) -> None:
        self.told = [str(database.url), database.schema]


@asynccontextmanager
async def open_whereabouts(database: Database) -> AsyncIterator[Whereabouts]:
    yield Whereabouts(database)


@task(isolate=True, resources=[Whereabouts])
async def says_where(ctx: Context) -> list[str]:
    return ctx.resource(Whereabouts).told


@task(resources=[Whereabouts])
async def says_where_in_the_worker(ctx: Context) -> list[str]:
    return ctx.resource(Whereabouts).told


class Slow:
    """Something that takes its time."""


@asynccontextmanager
async def open_slow() -> AsyncIterator[Slow]:
    time.sleep(0.4)  # noqa: ASYNC251 - as those do that load a model
    yield Slow()


@task(isolate=True, resources=(Slow,), timeout=5)
async def uses_slow(ctx: Context) -> None: ...


@asynccontextmanager
async def never_opens() -> AsyncIterator[Model]:
    await asyncio.Event().wait()
    yield Model()


@asynccontextmanager
async def cancels() -> AsyncIterator[Broken]:
    raise asyncio.CancelledError
    yield Broken()


@task(isolate=True, resources=(Model,))
async def uses_model(ctx: Context) -> int:
    assert isinstance(ctx.resource(Model), Model)
    return os.getpid()


@task(isolate=Process(retire_after=1), resources=(Model,))
async def wears_with_model(ctx: Context) -> int:
    return os.getpid()


@task(isolate=True, resources=(Broken,))
def uses_broken(ctx: Context) -> None:
    ctx.resource(Broken)


# Results and arguments


@task(isolate=True)
def returns(kind: str) -> Any:
    return {"none": None, "large": "x" * 10**6, "odd": object}[kind]


@task(isolate=True)
async def takes(number: int) -> int:
    return number


TASKS = [each for each in list(globals().values()) if isinstance(each, Task)]
