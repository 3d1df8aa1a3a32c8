"""LlamaParse reads a document: it is sent once, polled by snooze, and its answer is kept."""

from collections.abc import AsyncIterator

import pytest

from penstock import Exponential
from penstock_apps.knowledge.ingest import llamaparse as ingest_llamaparse
from penstock_apps.knowledge.ingest.finish import PARSER_FAILED
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Recipe
from penstock_apps.knowledge.store.documents import Document
from tests.knowledge.fixtures.llamaparse import LlamaParse
from tests.knowledge.fixtures.models import Models
from tests.knowledge.scene import Scene


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LlamaParse]:
    async with LlamaParse() as service:
        monkeypatch.setenv("PENSTOCK_KNOWLEDGE_PARSER", "llamaparse")
        monkeypatch.setenv("PENSTOCK_KNOWLEDGE_PARSER_URL", service.url)
        monkeypatch.setenv("LLAMA_CLOUD_API_KEY", service.key)
        monkeypatch.setattr(ingest_llamaparse, "POLL_BACKOFF", Exponential(base=0.05, cap=0.05))
        yield service


TEXT = "Weirs hold water.\fGates let it go."


async def bring(
    scene: Scene,
    library: Library,
    recipe: Recipe | None = None,
    name: str = "weirs.pdf",
    text: str = TEXT,
) -> Document:
    base = await library.make_base("handbook", recipe)
    receipt = await scene.add(library, {name: text}, base=base)
    await scene.drain(scheduled=True)
    return await library.document(receipt.documents[0].id)


@pytest.mark.parametrize("shared", [False, True], ids=["own model", "shared calls"])
async def test_a_document_is_sent_once_and_its_pages_are_found(
    service: LlamaParse, scene: Scene, library: Library, recipe: Recipe, shared: bool
) -> None:
    document = await bring(scene, library, recipe if shared else None)
    assert (document.state, document.kind, document.pages) == ("completed", "pdf", 2)
    assert service.files == [b"Weirs hold water.\fGates let it go."]
    assert service.count("/upload") == 1
    assert service.count("/result/json") == 1


async def test_text_of_its_answer_can_be_stored(
    service: LlamaParse, scene: Scene, library: Library
) -> None:
    document = await bring(scene, library, text="Weirs\0 hold water.\fGates let it go.")
    assert (document.state, document.pages) == ("completed", 2)


async def test_reason_of_its_answer_can_be_stored(
    service: LlamaParse, scene: Scene, library: Library
) -> None:
    service.error = "no\0 pages"
    document = await bring(scene, library)
    assert document.error == "LlamaParse could not read the file: no pages."


async def test_an_attempt_after_it_pays_for_nothing_again(
    service: LlamaParse, scene: Scene, library: Library, recipe: Recipe, models: Models
) -> None:
    models.bad = "Gates"
    document = await bring(scene, library, recipe)
    assert document.state == "failed"
    models.bad = None
    assert document.job is not None
    await scene.app.retry(document.job)
    await scene.drain()
    assert (await library.document(document.id)).state == "completed"
    assert service.count("/upload") == service.count("/result/json") == 1


async def test_what_it_does_not_read_is_read_here(
    service: LlamaParse, scene: Scene, library: Library
) -> None:
    document = await bring(scene, library, name="weirs.txt")
    assert document.state == "completed"
    assert not service.requests


async def test_a_service_that_is_busy_or_broken_is_asked_again(
    service: LlamaParse, scene: Scene, library: Library
) -> None:
    service.fail(429, Retry_After="1")
    service.fail(500)
    document = await bring(scene, library)
    assert document.state == "completed"
    assert len(service.files) == 1


async def test_a_file_that_it_cannot_read_fails_with_its_reason(
    service: LlamaParse, scene: Scene, library: Library
) -> None:
    service.error = "The file is encrypted"
    document = await bring(scene, library)
    assert (document.state, document.reason) == ("failed", "broken")
    assert document.error == "LlamaParse could not read the file: The file is encrypted."


async def test_a_key_that_is_refused_says_which(
    service: LlamaParse, scene: Scene, library: Library
) -> None:
    service.key = "another"
    document = await bring(scene, library)
    assert (document.state, document.reason) == ("failed", "refused")
    assert document.job is not None
    assert document.error == f"{PARSER_FAILED} (job {document.job})."
    told = "LlamaParse has refused the key with 401. Check LLAMA_CLOUD_API_KEY."
    assert (await scene.app.get(document.job)).errors[-1].message == told


async def test_an_empty_file_is_skipped_and_not_sent(
    service: LlamaParse, scene: Scene, library: Library
) -> None:
    document = await bring(scene, library, text="")
    assert (document.state, document.reason) == ("skipped", "empty")
    assert service.files == []


async def test_a_file_too_large_is_refused_and_not_sent(
    service: LlamaParse, scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_FILE_BYTES", "10")
    document = await bring(scene, library)
    assert (document.state, document.reason) == ("failed", "too_large")
    assert service.files == []
