"""What the tests of the queue's SQL use beside the database."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from tests.db.engine import Engine
from tests.db.play import Play
from tests.fixtures.database import Database
from tests.fixtures.database import database as copy
from tests.fixtures.kept import Kept, database, kept
from tests.fixtures.leftovers import expect_none_left, has_failed

__all__ = ["copy", "database", "kept"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one loop, or their connections could not go from test to test."""
    for item in items:
        if HERE in item.path.parents and inspect.iscoroutinefunction(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def no_task_or_thread_left(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Fail when an asyncio task, or a thread that keeps Python alive, outlives its test."""
    tasks_before, threads_before = asyncio.all_tasks(), set(threading.enumerate())
    yield
    if has_failed(request.node):
        return
    checking = asyncio.current_task()

    async def left() -> list[str]:
        tasks = asyncio.all_tasks() - tasks_before - {checking}
        threads = {each for each in threading.enumerate() if not each.daemon} - threads_before
        # Those of asyncio.to_thread belong to the loop, which goes on.
        ours = {each for each in threads if not each.name.startswith("asyncio_")}
        return [repr(each) for each in (*tasks, *ours)]

    await expect_none_left(left)


@pytest_asyncio.fixture(loop_scope="session")
async def connection(database: Database, kept: Kept) -> asyncpg.Connection:
    return await kept.connection("one")


@pytest_asyncio.fixture(loop_scope="session")
async def engine(database: Database, kept: Kept) -> Engine:
    """The queue's functions over a connection."""
    return Engine(await kept.connection("one"))


@pytest_asyncio.fixture(loop_scope="session")
async def other(database: Database, kept: Kept) -> Engine:
    """The same database over a second connection: another worker, another transaction."""
    return Engine(await kept.connection("another"))


@pytest.fixture
def play(copy: Database) -> Iterator[Play]:
    """In a database of its own: long games need a vacuum now and then."""
    play = Play(copy)
    yield play
    play.close()
