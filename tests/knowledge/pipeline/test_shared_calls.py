"""A call to a model carries texts of many documents and tenants."""

from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.store.bases import Recipe
from penstock_apps.knowledge.store.sources import NewSource
from penstock_apps.knowledge.tasks import SMALL_QUEUE
from tests.knowledge.fixtures.models import Models
from tests.knowledge.pipeline.manual import edited, manual
from tests.knowledge.scene import Scene


async def test_one_call_embeds_texts_of_many_documents_and_tenants(
    scene: Scene, knowledge: Knowledge, runtime: KnowledgeRuntime, models: Models, recipe: Recipe
) -> None:
    for tenant in ("acme", "globex"):
        library = knowledge.of(runtime, tenant)
        base = await library.make_base("handbook", recipe)
        texts = {f"{number}.txt": f"{tenant} page {number}" for number in range(5)}
        await scene.add(library, texts, base=base)
    await scene.drain(queues=SMALL_QUEUE)  # All texts are there before the first call.
    await scene.drain()
    assert len(models.texts) == 10
    assert len(models.calls) < 10
    assert any(len({text.split()[0] for text in call.texts}) == 2 for call in models.calls)
    for tenant in ("acme", "globex"):
        counts = await knowledge.of(runtime, tenant).progress()
        assert (counts.total, counts.completed) == (5, 5)
    assert await scene.value("SELECT count(*) FROM k.draft") == 0
    assert await scene.value("SELECT count(*) FROM k.vector") == 0


async def test_a_text_that_is_there_is_not_embedded_again(
    scene: Scene, library: Library, models: Models, recipe: Recipe
) -> None:
    base = await library.make_base("handbook", recipe)
    pages = manual()
    await scene.bring(library, {"manual.md": pages}, base=base)
    before = await chunks(scene)
    assert sorted(models.texts) == before
    models.calls.clear()
    await scene.bring(library, {"manual.md": edited(pages), "copy.md": pages}, base=base)
    fresh = set(await chunks(scene)) - set(before)
    assert 0 < len(fresh) < len(before) / 4
    assert sorted(models.texts) == sorted(fresh)
    [row] = await scene.rows("SELECT embedded FROM k.document WHERE path = 'manual.md'")
    assert row["embedded"] == len(fresh)


async def test_calls_to_a_model_know_who_asked_and_how_urgent_it_is(
    scene: Scene, knowledge: Knowledge, runtime: KnowledgeRuntime, models: Models, recipe: Recipe
) -> None:
    library = knowledge.of(runtime, "acme", requested_by="ada")
    base = await library.make_base("handbook", recipe)
    source = NewSource("files", "folder")
    async with library.intake(base, source, priority=7) as intake:
        await intake.add(scene.files({"a.txt": "page 1"}))
    await scene.drain(queues=SMALL_QUEUE)
    [job] = (await scene.app.list(task="knowledge.embed")).jobs
    assert (job.requested_by, job.priority) == ("ada", 7)


async def chunks(scene: Scene) -> list[str]:
    """What is embedded of all chunks."""
    rows = await scene.rows("SELECT heading, text FROM k.chunk")
    return sorted(f"{row['heading']}\n\n{row['text']}" for row in rows)


async def test_a_text_that_the_model_refuses_fails_its_document_alone(
    scene: Scene, library: Library, models: Models, recipe: Recipe
) -> None:
    base = await library.make_base("handbook", recipe)
    models.bad = "poison"
    texts = {f"{number}.txt": f"page {number}" for number in range(7)}
    await scene.bring(library, {**texts, "bad.txt": "poison"}, base=base)
    counts = await library.progress()
    assert (counts.completed, counts.failed) == (7, 1)
    [bad] = await scene.rows("SELECT path, reason, error FROM k.document WHERE state = 'failed'")
    assert (bad["path"], bad["reason"]) == ("bad.txt", "not_embedded")
    assert "refused a text with 400" in bad["error"]


async def test_retry_completes_a_document_whose_text_was_refused(
    scene: Scene, library: Library, models: Models, recipe: Recipe
) -> None:
    base = await library.make_base("handbook", recipe)
    models.bad = "poison"
    await scene.bring(library, {"bad.txt": "poison"}, base=base)
    models.bad = None
    [row] = await scene.rows("SELECT id, job FROM k.document")
    await scene.app.retry(row["job"])
    await scene.drain()
    assert (await library.document(row["id"])).state == "completed"
