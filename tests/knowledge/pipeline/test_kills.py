"""Workers that are killed while they embed, and a database that is restarted meanwhile."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Recipe
from tests.chaos.process import Process
from tests.fixtures.until import until
from tests.knowledge.fixtures.models import Models
from tests.knowledge.pipeline.manual import manual
from tests.knowledge.scene import Scene

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


async def test_a_worker_that_is_killed_while_it_embeds_loses_the_call_in_flight_alone(
    scene: Scene, library: Library, recipe: Recipe, models: Models, start: Start
) -> None:
    base = await library.make_base("handbook", recipe)
    texts = {f"{number}.md": manual(number) for number in range(3)}
    receipt = await scene.add(library, texts, base=base)
    models.hang()
    victim = start("victim")
    await until(lambda: models.running, what="the first call")
    models.resume()
    models.hang()
    await until(lambda: scene.value("SELECT count(*) FROM k.vector"), what="vectors of the first")
    await until(lambda: models.running, what="another call")
    victim.kill()
    in_flight = Counter(text for call in models.calls[1:] for text in call.texts)
    models.resume()
    start("heir")
    await scene.ended(library, receipt)
    assert (await library.progress()).completed == 3
    twice = Counter(models.texts)
    twice.subtract(set(models.texts))
    assert not +twice - in_flight, "only what was in flight is embedded again"
    assert await scene.value("SELECT count(*) FROM k.chunk") == len(set(models.texts))
