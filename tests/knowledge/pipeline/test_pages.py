"""A document that is named by a URL is fetched, stored and brought in."""

from collections.abc import AsyncIterator
from random import Random

import pytest

from penstock_apps.knowledge import tasks
from penstock_apps.knowledge.ingest.intake import Receipt
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Recipe
from penstock_apps.knowledge.store.documents import Document
from penstock_apps.knowledge.store.sources import NewSource
from tests.knowledge.fixtures.models import Models
from tests.knowledge.scene import Scene
from tests.net.site import Site, answer

HTML = "<html><head><title>Weirs</title></head><body><p>{}</p></body></html>"


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A site that may be fetched from."""
    site = Site()
    server = await site.start()
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_FETCH_PRIVATE", "127.0.0.1")
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_FETCH_PORTS", f"80,443,{site.port}")
    yield site
    server.close()
    await server.wait_closed()


async def bring(
    scene: Scene, library: Library, recipe: Recipe, url: str, *, priority: int = 0
) -> Document:
    base = await library.make_base("handbook", recipe)
    async with library.intake(base, NewSource("url", url, key=url), priority=priority) as intake:
        await intake.add_url(url)
    await scene.drain()
    receipt: Receipt = intake.receipt
    return await library.document(receipt.documents[0].id)


def page(text: str) -> bytes:
    return answer(HTML.format(text).encode(), content_type="text/html; charset=utf-8")


async def test_a_page_is_fetched_and_found(
    scene: Scene, library: Library, recipe: Recipe, site: Site
) -> None:
    site.pages["/weirs"] = page("A weir holds water back.")
    document = await bring(scene, library, recipe, site.at("/weirs"))
    assert (document.state, document.title, document.kind) == ("completed", "Weirs", "html")
    assert (document.media_type, document.chunks) == ("text/html", 1)
    assert document.object is not None
    assert await scene.value("SELECT sum(bytes) FROM k.usage") == document.bytes > 0


async def test_a_large_page_is_read_in_the_queue_of_large_files(
    scene: Scene,
    library: Library,
    recipe: Recipe,
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_LARGE_BYTES", "100")
    async with scene.knowledge.opened() as runtime:
        limited = scene.knowledge.of(runtime, library.tenant, requested_by="ada")
        site.pages["/weirs"] = page("A weir holds water back. " * 10)
        document = await bring(scene, limited, recipe, site.at("/weirs"), priority=7)
    assert (document.state, document.requested_by) == ("completed", "ada")
    [fetching] = (await scene.app.list(task=tasks.ingest)).jobs
    [reading] = (await scene.app.list(task=tasks.ingest_large)).jobs
    assert (fetching.state, reading.state) == ("completed", "completed")
    assert (reading.id, reading.priority) == (document.job, 7)
    assert reading.batch == fetching.batch == document.batch
    assert len(site.requests) == 1
    assert (await library.source(document.source)).ended_at is not None


async def test_unchanged_page_is_neither_read_nor_embedded_again(
    scene: Scene, library: Library, recipe: Recipe, site: Site, models: Models
) -> None:
    site.pages["/weirs"] = page("A weir holds water back.")
    before = await bring(scene, library, recipe, site.at("/weirs"))
    again = await bring(scene, library, recipe, site.at("/weirs"))
    assert len(site.requests) == 2
    assert len(models.texts) == 1
    assert (again.state, again.version, again.published, again.chunks) == ("completed", 2, 2, 1)
    site.pages["/weirs"] = page("A weir holds much water back.")
    changed = await bring(scene, library, recipe, site.at("/weirs"))
    assert (changed.id, changed.version, changed.published) == (before.id, 3, 3)
    assert [text.split()[-3] for text in models.texts] == ["holds", "much"]
    [has] = await scene.rows("SELECT sum(documents) AS documents, sum(bytes) AS bytes FROM k.usage")
    assert has == {"documents": 1, "bytes": changed.bytes}


async def test_a_page_in_our_own_network_is_refused_with_a_reason(
    scene: Scene, library: Library, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = await bring(scene, library, recipe, "http://169.254.169.254/latest/meta-data")
    assert (document.state, document.reason) == ("failed", "refused")
    assert document.error is not None
    assert "169.254.169.254" in document.error


async def test_a_page_that_is_not_there_is_refused_with_a_reason(
    scene: Scene, library: Library, recipe: Recipe, site: Site
) -> None:
    document = await bring(scene, library, recipe, site.at("/gone"))
    assert (document.state, document.reason) == ("failed", "refused")
    assert document.error is not None
    assert "404" in document.error


async def text_of(scene: Scene, document: Document) -> str:
    sql = (
        "SELECT c.text FROM k.passage AS p JOIN k.chunk AS c ON c.id = p.chunk WHERE document = $1"
    )
    text: str = await scene.value(sql, document.id)
    return text


async def test_a_page_is_read_in_the_encoding_that_its_server_declares(
    scene: Scene, library: Library, recipe: Recipe, site: Site
) -> None:
    content = "<p>Насос</p>".encode("cp866")
    site.pages["/pump"] = answer(content, content_type="text/html; charset=IBM866")
    document = await bring(scene, library, recipe, site.at("/pump"))
    assert await text_of(scene, document) == "Насос"
    assert document.media_type == "text/html; charset=ibm866"


async def test_page_is_read_again_when_its_declared_encoding_changes(
    scene: Scene, library: Library, recipe: Recipe, site: Site
) -> None:
    content = "<p>Насос</p>".encode("cp866")
    site.pages["/pump"] = answer(content, content_type="text/html; charset=koi8-r")
    before = await bring(scene, library, recipe, site.at("/pump"))
    site.pages["/pump"] = answer(content, content_type="text/html; charset=ibm866")
    document = await bring(scene, library, recipe, site.at("/pump"))
    assert (document.id, document.version, document.published) == (before.id, 2, 2)
    assert await text_of(scene, document) == "Насос"


async def test_page_in_an_unknown_encoding_fails_with_a_remedy(
    scene: Scene, library: Library, recipe: Recipe, site: Site
) -> None:
    chance = Random(3)
    noise = bytes(chance.randrange(160, 256) for _ in range(4000))
    site.pages["/noise"] = answer(noise, content_type="text/plain")
    document = await bring(scene, library, recipe, site.at("/noise"))
    assert (document.state, document.reason) == ("failed", "encoding")
    assert document.error is not None
    assert "save it as UTF-8" in document.error
