"""A document that is edited while it is being brought in."""

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.maintenance.sweep import KnowledgeSweeper
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.search import Query
from penstock_apps.knowledge.store.bases import Recipe
from tests.knowledge.fixtures.models import Models
from tests.knowledge.pipeline.manual import edited, manual
from tests.knowledge.scene import Scene


async def test_newer_edit_supersedes_one_waiting_for_vectors(
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


async def test_search_does_not_find_the_text_of_an_emptied_document(
    scene: Scene, library: Library, runtime: KnowledgeRuntime
) -> None:
    await scene.bring(library, {"a.txt": "A weir holds water back.", "b.txt": "A gate lets it go."})
    receipt = await scene.bring(library, {"a.txt": ""})
    document = await library.document(receipt.documents[0].id)
    assert (document.state, document.published, document.chunks) == ("skipped", None, 0)
    assert [hit.path for hit in await library.search(Query("weir", mode="words"))] == []
    about = await library.get_tenant()
    assert (about.documents, about.chunks) == (2, 1)
    await KnowledgeSweeper(runtime).rows()
    assert await scene.value("SELECT count(*) FROM k.chunk") == 1

    await scene.bring(library, {"a.txt": "A weir holds water back."})
    document = await library.document(document.id)
    assert (document.state, document.published, document.chunks) == ("completed", 3, 1)
    assert (await library.get_tenant()).chunks == 2


async def test_search_finds_the_old_text_when_the_new_version_fails(
    scene: Scene, library: Library
) -> None:
    await scene.bring(library, {"a.txt": "A weir holds water back."})
    await scene.bring(library, {"a.txt": b"%PDF-1.4"})
    [hit] = await library.search(Query("weir", mode="words"))
    assert hit.path == "a.txt"
    assert (await library.progress()).failed == 1
