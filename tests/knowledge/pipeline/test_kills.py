"""Workers that are killed while they embed, and a database that is restarted meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from penstock import Penstock
from penstock.embedded import Server
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Recipe
from tests.chaos.process import Process
from tests.fixtures.until import until
from tests.knowledge.fixtures.models import Models
from tests.knowledge.pipeline.manual import manual
from tests.knowledge.scene import Scene, worker_of

# Each process takes seconds to start.
pytestmark = pytest.mark.timeout(400)

Start = Callable[[str], Process]


@pytest.fixture
def start(scene: Scene, tmp_path: Path) -> Iterator[Start]:
    """Start worker processes; killed after the test if they still run."""
    processes: list[Process] = []

    def begin(name: str) -> Process:
        settings = {"url": scene.app.url, "name": name, "folder": str(tmp_path)}
        processes.append(Process("tests.knowledge.pipeline.worker", settings))
        return processes[-1]

    yield begin
    for each in processes:
        each.kill()


class Turns(asyncio.Event):
    """A gate that lets through as many calls as it is told, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = asyncio.Semaphore(0)

    async def wait(self) -> Literal[True]:
        if not self.is_set():
            await self._turns.acquire()
        return True

    def let_one_through(self) -> None:
        self._turns.release()

    def set(self) -> None:
        super().set()
        for _ in range(100):
            self._turns.release()


async def test_kill_while_embedding_repeats_only_calls_in_flight(
    scene: Scene, library: Library, recipe: Recipe, models: Models, start: Start
) -> None:
    gate = models.gate = Turns()
    base = await library.make_base("handbook", recipe)
    # More texts than a call has.
    texts = {f"{number}.md": manual(number) for number in range(2)}
    receipt = await scene.add(library, texts, base=base)
    victim = start("victim")
    await until(lambda: models.running, 90, what="the first call")
    gate.let_one_through()
    await until(lambda: paid(scene, len(models.calls[0].texts)), 90, what="its vectors")
    await until(lambda: models.running, 90, what="another call")
    victim.kill()
    models.resume()
    await until(lambda: not models.connections, what="all that it had sent")
    in_flight = Counter(text for call in models.calls[1:] for text in call.texts)
    await scene.miss_the_killed()
    async with worker_of(scene.app):
        await scene.ended(library, receipt)
    assert (await library.progress()).completed == 2
    twice = Counter(models.texts)
    twice.subtract(set(models.texts))
    assert not +twice - in_flight, "only what was in flight is embedded again"
    assert await scene.value("SELECT count(*) FROM k.chunk") == len(set(models.texts))


async def paid(scene: Scene, texts: int) -> bool:
    """Whether so many vectors are kept, or published already."""
    count = "SELECT (SELECT count(*) FROM k.vector) + (SELECT count(*) FROM k.chunk)"
    return int(await scene.value(count)) >= texts


async def test_database_restart_while_embedding_loses_no_document(
    tmp_path: Path, objects: Path, recipe: Recipe, models: Models
) -> None:
    server = Server(tmp_path / "penstock")
    server.start()
    try:
        async with Penstock(data_dir=server.data_dir) as app:
            knowledge = Knowledge(app)
            await app.migrate()
            async with knowledge.opened() as runtime:
                scene, library = (
                    Scene(knowledge, runtime, tmp_path / "files"),
                    knowledge.of(runtime),
                )
                base = await library.make_base("handbook", recipe)
                texts = {f"{number}.md": manual(number) for number in range(2)}
                receipt = await scene.add(library, texts, base=base)
                models.hang()
                async with worker_of(app):
                    await until(lambda: models.running, 90, what="a call")
                    await asyncio.to_thread(server.stop, "immediate")
                    models.resume()
                    await asyncio.to_thread(server.start)
                    await scene.ended(library, receipt)
                assert (await library.progress()).completed == 2
                assert await scene.value("SELECT count(*) FROM k.chunk") == len(set(models.texts))
    finally:
        server.stop("immediate")
