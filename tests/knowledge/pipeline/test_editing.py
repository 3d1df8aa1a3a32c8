"""A document that is edited while it is being brought in."""

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Recipe
from tests.knowledge.fixtures.models import Models
from tests.knowledge.pipeline.manual import edited, manual
from tests.knowledge.scene import Scene


async def test_a_newer_edit_supersedes_the_one_that_waits_for_its_vectors(
    scene: Scene, library: Library, recipe: Recipe, models: Models
) -> None:
    base = await library.make_base("handbook", recipe)
    first = manual()
    before = await scene.add(library, {"manual.md": first}, base=base)
    await scene.drain(queues="knowledge-small")
    after = await scene.add(library, {"manual.md": edited(first)}, base=base)
    await scene.drain(queues="knowledge-small")
    await scene.drain()
    document = await library.document(before.documents[0].id)
    assert (document.state, document.published) == ("completed", 2)
    assert after.documents[0].id == document.id
    # Of the first version nothing was embedded that the second does not have.
    assert len(models.texts) == await scene.value("SELECT count(*) FROM k.chunk")
    assert await scene.value("SELECT count(*) FROM k.draft") == 0


async def test_no_call_asks_for_a_text_that_another_is_at(
    scene: Scene, library: Library, recipe: Recipe, models: Models
) -> None:
    base = await library.make_base("handbook", recipe)
    first = manual()
    await scene.add(library, {"manual.md": first}, base=base)
    await scene.drain(queues="knowledge-small")
    # While texts of the first are on their way, the second asks for nearly the same.
    await scene.add(library, {"copy.md": edited(first)}, base=base)
    models.delay = 0.5
    await scene.drain()
    assert (await library.progress()).completed == 2
    assert len(models.texts) == len(set(models.texts))
