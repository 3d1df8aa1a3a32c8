"""A model API that is busy, broken, silent, or another one than was thought."""

from functools import partial

import pytest

from penstock_apps.knowledge import runtime
from penstock_apps.knowledge.embed import embedder_of
from penstock_apps.knowledge.ingest.embed_calls import EmbedRound
from penstock_apps.knowledge.ingest.finish import MODEL_FAILED, SERVICE_FAILED
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Recipe
from penstock_apps.knowledge.store.documents import Document
from tests.knowledge.fixtures.models import Fault, Models
from tests.knowledge.scene import Scene

BUSY = Fault(429, {"Retry-After": "30"})


async def bring(scene: Scene, library: Library, recipe: Recipe) -> Document:
    base = await library.make_base("handbook", recipe)
    receipt = await scene.add(library, {"a.txt": "A weir holds water back."}, base=base)
    await scene.drain(scheduled=True)
    return await library.document(receipt.documents[0].id)


@pytest.fixture
def two_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a worker that starts, and there would be ten."""
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_EMBED_ATTEMPTS", "2")


@pytest.mark.parametrize("limited", [False, True], ids=["without a budget", "within a budget"])
async def test_one_that_asks_to_be_left_alone_is_no_failure(
    scene: Scene, library: Library, recipe: Recipe, models: Models, limited: bool
) -> None:
    if limited:
        await scene.app.set_limit("knowledge:openai", rate="60000/min", burst=10_000)
    models.fail(BUSY, times=3)
    document = await bring(scene, library, recipe)
    assert document.state == "completed"
    assert len(models.calls) == 4
    [job] = (await scene.app.list(task="knowledge.embed")).jobs
    assert (job.failures, job.errors) == (0, ())


async def test_one_that_asks_to_be_left_alone_is_left_alone_by_all(
    scene: Scene, library: Library, recipe: Recipe, models: Models
) -> None:
    base = await library.make_base("handbook", recipe)
    models.fail(Fault(429, {"Retry-After": "2"}))
    await scene.add(library, {"a.txt": "A weir holds water back."}, base=base)
    await scene.drain()
    await scene.add(library, {"b.txt": "A gate lets it go."}, base=base)
    await scene.drain(scheduled=True)
    refused, *later = models.calls
    assert min(call.at for call in later) - refused.at > 1.9
    assert (await library.progress()).completed == 2


async def test_one_that_is_broken_for_a_while_is_asked_again(
    scene: Scene, library: Library, recipe: Recipe, models: Models
) -> None:
    models.fail(Fault(500), times=3)
    document = await bring(scene, library, recipe)
    assert (document.state, len(models.calls)) == ("completed", 4)


async def test_one_that_stays_broken_fails_the_document_with_a_reason(
    scene: Scene, library: Library, recipe: Recipe, models: Models, two_attempts: None
) -> None:
    models.fail(Fault(500), times=10)
    document = await bring(scene, library, recipe)
    assert (document.state, document.reason) == ("failed", "not_embedded")
    [job] = (await scene.app.list(task="knowledge.embed")).jobs
    assert document.error == f"{MODEL_FAILED} (job {job.id})."
    assert job.last_error is not None
    assert job.last_error.message.endswith("is busy or broken (500).")


async def test_one_that_is_broken_is_asked_as_often_as_is_set(
    scene: Scene,
    library: Library,
    recipe: Recipe,
    models: Models,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_EMBED_ATTEMPTS", "3")
    models.fail(Fault(500), times=10)
    document = await bring(scene, library, recipe)
    assert (document.state, document.reason) == ("failed", "not_embedded")
    assert len(models.calls) == 3


async def test_one_that_does_not_answer_is_asked_again(
    scene: Scene,
    library: Library,
    recipe: Recipe,
    models: Models,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base = await library.make_base("handbook", recipe)
    models.hang()
    receipt = await scene.add(library, {"a.txt": "A weir holds water back."}, base=base)
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "embedder_of", partial(embedder_of, timeout=0.2))
        await scene.drain()
    in_vain = len(models.calls)
    models.resume()
    await scene.drain(scheduled=True)
    document = await library.document(receipt.documents[0].id)
    assert (document.state, len(models.calls)) == ("completed", in_vain + 1)


async def test_vectors_of_other_dimensions_fail_the_document(
    scene: Scene,
    library: Library,
    recipe: Recipe,
    models: Models,
    caplog: pytest.LogCaptureFixture,
) -> None:
    models.dimensions = 32
    document = await bring(scene, library, recipe)
    assert (document.state, document.reason) == ("failed", "not_embedded")
    [job] = (await scene.app.list(task="knowledge.embed")).jobs
    assert document.error == f"{MODEL_FAILED} (job {job.id})."
    assert "vectors of 32 dimensions; the settings say 64" in caplog.text
    assert len(models.calls) == 1


async def test_unexpected_failure_of_an_embed_job_fails_its_document(
    scene: Scene,
    library: Library,
    recipe: Recipe,
    two_attempts: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(self: EmbedRound) -> list[int]:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(EmbedRound, "run", broken)
    document = await bring(scene, library, recipe)
    assert (document.state, document.reason) == ("failed", "not_embedded")
    [job] = (await scene.app.list(task="knowledge.embed")).jobs
    assert document.error == f"{SERVICE_FAILED} (job {job.id})."
    assert job.last_error is not None
    assert job.last_error.message == "a mistake of ours"


async def test_texts_whose_job_was_cancelled_are_asked_for_again(
    scene: Scene, library: Library, recipe: Recipe, models: Models
) -> None:
    base = await library.make_base("handbook", recipe)
    receipt = await scene.add(library, {"a.txt": "A weir holds water back."}, base=base)
    await scene.drain(queues="knowledge-small")
    [job] = (await scene.app.list(task="knowledge.embed")).jobs
    await scene.app.cancel(job.id)
    await scene.drain(scheduled=True)
    document = await library.document(receipt.documents[0].id)
    assert (document.state, len(models.calls)) == ("completed", 1)
