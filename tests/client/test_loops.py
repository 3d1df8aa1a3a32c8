"""One app and several event loops."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock import DatabaseDenied, Penstock
from tests.fixtures.address import with_database
from tests.fixtures.database import Database


def test_an_app_outlives_its_event_loop(database: Database) -> None:
    app = Penstock(database.url)

    @app.task(name="greet")
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    async def once() -> str:
        job = await app.enqueue(greet, "Ada")
        await app.worker().drain(seconds=10)
        return await app.wait(job, timeout=30)

    async def last() -> None:
        await app.enqueue(greet, "Bob")
        await app.close()

    assert asyncio.run(once()) == "Hello, Ada"
    assert asyncio.run(once()) == "Hello, Ada"
    asyncio.run(last())
    gc.collect()


def test_an_app_that_nobody_closes_ends_with_its_loop(database: Database) -> None:
    app = Penstock(database.url)
    asyncio.run(app.open())
    app.use_database(database.url)  # Only an app that is not open can be led elsewhere.
    gc.collect()


async def test_an_app_can_be_closed_and_opened_in_one_loop(database: Database) -> None:
    app = Penstock(database.url)
    for _ in range(3):
        await app.open()
        assert await app.paused() == []
        await app.close()
        gc.collect()


async def test_a_second_loop_is_told_what_to_do(app: Penstock) -> None:
    @app.task(name="greet")
    async def greet() -> None: ...

    def elsewhere() -> None:
        asyncio.run(app.enqueue(greet))  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match="run_coroutine_threadsafe"):
        await asyncio.to_thread(elsewhere)


@pytest.mark.parametrize("is_open_before", [False, True])
def test_one_of_two_loops_opens_the_app(database: Database, is_open_before: bool) -> None:
    for _ in range(10):
        app = Penstock(database.url)
        if is_open_before:  # in a loop that has ended
            asyncio.run(app.open())
        found = opened_at_once(app)
        assert sorted(type(each).__name__ for each in found) == ["Penstock", "RuntimeError"]


def opened_at_once(app: Penstock) -> list[object]:
    """What two threads get that open an app together, each in a loop of its own."""
    together, both = threading.Barrier(2), threading.Barrier(2)

    async def open_once() -> object:
        together.wait(30)
        try:
            return await app.open()
        except RuntimeError as error:
            return error
        finally:
            await asyncio.to_thread(both.wait, 30)  # The winner stays open until then.

    with ThreadPoolExecutor(2) as threads:
        return [*threads.map(lambda _: asyncio.run(open_once()), range(2))]


async def test_a_loop_may_open_what_another_could_not(database: Database) -> None:
    app = Penstock(with_database(database.url, "nowhere"))
    with pytest.raises(DatabaseDenied):
        await asyncio.to_thread(lambda: asyncio.run(app.open()))
    with pytest.raises(DatabaseDenied):
        await app.open()


async def test_what_is_no_task_cannot_be_enqueued(app: Penstock) -> None:
    with pytest.raises(TypeError, match=r"decorate it with @app\.task"):
        await app.enqueue(len, "x")  # type: ignore[arg-type]


async def test_a_job_is_named_by_its_id_or_itself(app: Penstock) -> None:
    @app.task(name="greet")
    async def greet() -> None: ...

    enqueued = await app.enqueue(greet)
    job = await app.get(enqueued)
    assert await app.get(job) == job
    with pytest.raises(TypeError, match="Pass the id of a job"):
        await app.get(1)  # type: ignore[arg-type]
