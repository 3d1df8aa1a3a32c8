"""A worker that is killed in any stage loses no document, and brings none in twice."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from penstock.storage.names import object_name
from penstock_apps.knowledge.library import Library
from tests.chaos.process import Process
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until
from tests.knowledge.scene import Scene

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
# What a worker needs to begin, to compare what it has cut, to publish.
IS_LONG = bool(os.environ.get("PENSTOCK_LONG"))
TABLES = ("edition", "vector", "passage") if IS_LONG else ("passage",)


class Stall:
    """Holds up what a stage needs, until it is let go."""

    def __init__(self, scene: Scene, database: Database, objects: Path) -> None:
        self._scene = scene
        self._database = database
        self._objects = objects

    @contextmanager
    def piped(self, text: str) -> Iterator[None]:
        """The stored file is a pipe that nobody writes to."""
        [file] = self._scene.files({"": text})
        stored = self._objects / object_name("acme", file.digest)
        stored.unlink()
        os.mkfifo(stored)
        yield
        stored.unlink()
        stored.write_bytes(file.file.read_bytes())

    @asynccontextmanager
    async def locked(self, table: str) -> AsyncIterator[None]:
        """Who asks for a table waits."""
        async with connected(self._database.direct_url) as connection, connection.transaction():
            await connection.execute(f"LOCK TABLE penstock_knowledge.{table}")
            yield

    async def is_waited_for(self) -> bool:
        """Whether somebody waits for a lock."""
        return bool(await self._scene.value(f"{WAITING} AND wait_event_type = 'Lock'"))


@pytest.fixture
def stall(scene: Scene, knowledge_database: Database, objects: Path) -> Stall:
    return Stall(scene, knowledge_database, objects)


@pytest.fixture
def start(scene: Scene, tmp_path: Path) -> Iterator[Callable[[], Process]]:
    """Start worker processes; killed after the test if they still run."""
    processes: list[Process] = []

    def begin() -> Process:
        settings = {"url": scene.app.url, "name": str(len(processes)), "folder": str(tmp_path)}
        processes.append(Process("tests.knowledge.pipeline.worker", settings))
        return processes[-1]

    yield begin
    for each in processes:
        each.kill()


@pytest.mark.timeout(400)  # Each process takes seconds to start.
async def test_a_kill_in_any_stage_loses_no_document(
    scene: Scene, library: Library, stall: Stall, start: Callable[[], Process]
) -> None:
    base = await library.make_base("handbook")
    begun = "SELECT count(*) FROM k.document WHERE path = 'fetch' AND state = 'processing'"

    async def is_in(number: int) -> None:
        async def counted() -> bool:
            return (await library.progress()).completed == number

        await until(counted, 90, what=f"{number} documents to be in")

    await scene.add(library, {"fetch": "Fetched."}, base=base)
    if IS_LONG:
        with stall.piped("Fetched."):
            victim = start()
            await until(lambda: scene.value(begun), what="the fetch")
            victim.kill()
            await scene.miss_the_killed()
    victim = start()
    await is_in(1)
    for number, table in enumerate(TABLES, start=2):
        text = f"Kept waiting by a lock on {table}."
        async with stall.locked(table):
            await scene.add(library, {table: text}, base=base)
            await until(stall.is_waited_for, 90, what=f"somebody to wait for {table}")
            victim.kill()
            await scene.miss_the_killed()
        victim = start()
        await is_in(number)
    left = await scene.left("acme")
    counts = [left[table] for table in ("document", "passage", "chunk", "object")]
    assert counts == [1 + len(TABLES)] * 4
    assert not left.keys() & {"vector", "draft"}
