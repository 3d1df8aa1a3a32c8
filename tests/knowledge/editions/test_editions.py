"""A change of settings is built beside what is searched, and searched once it is whole."""

from typing import Any

import pytest

from penstock_apps.knowledge.chunk import Chunking
from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.ingest.document_job import DocumentJob
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import NewEdition, Recipe
from penstock_apps.knowledge.store.documents import VersionToIngest
from penstock_apps.knowledge.store.editions import Editions
from penstock_apps.knowledge.text import Extracted
from tests.knowledge.scene import Scene

FOX = "# Foxes\n\nThe quick brown fox jumps over the lazy dog."
HEN = "# Hens\n\nA hen sits on its eggs until they hatch."
OTHER = Recipe(Embedding(dimensions=128), Chunking())


async def editions(scene: Scene) -> list[tuple[int, int]]:
    """How many chunks and documents each edition has."""
    rows = await scene.rows(
        "SELECT p.edition, count(*), count(DISTINCT p.document) AS documents FROM k.passage AS p"
        " GROUP BY p.edition ORDER BY p.edition"
    )
    return [(row["edition"], row["documents"]) for row in rows]


async def test_the_old_edition_is_searched_until_the_new_one_is_whole(
    scene: Scene, library: Library
) -> None:
    await scene.bring(library, {"a.md": FOX, "b.md": HEN})
    before = await library.base("handbook")

    batch = await library.change_recipe(before, OTHER)
    building = await library.base("handbook")
    assert building.edition == before.edition
    assert building.next_batch == batch
    assert (await library.progress()).completed == 2
    await scene.drain()

    after = await library.base("handbook")
    assert after.edition.recipe == OTHER
    assert (after.edition.dimensions, after.next_edition) == (128, None)
    # Nothing is left of the old one.
    assert await editions(scene) == [(after.edition.id, 2)]
    assert await scene.value("SELECT count(*) FROM k.edition") == 1
    assert await scene.value("SELECT count(*) FROM k.chunk") == 2
    counts = await library.progress()
    assert (counts.total, counts.completed) == (2, 2)


async def test_what_comes_in_meanwhile_is_in_both(scene: Scene, library: Library) -> None:
    await scene.bring(library, {"a.md": FOX})
    base = await library.base("handbook")
    await library.change_recipe(base, OTHER)
    await scene.add(library, {"b.md": HEN, "a.md": FOX + " And runs."})
    # The switch looks again in two seconds if it comes before these documents are in.
    await scene.drain(scheduled=True)

    after = await library.base("handbook")
    assert after.edition.recipe == OTHER
    assert await editions(scene) == [(after.edition.id, 2)]
    assert await scene.value("SELECT count(*) FROM k.chunk WHERE text LIKE '%And runs.%'") == 1


async def test_rebuild_does_not_replace_a_newer_version(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer version has failed, and is tried again while the older one is rebuilt."""
    await scene.bring(library, {"a.md": FOX})
    await scene.rows("UPDATE k.document SET version = 2, state = 'failed'")
    base = await library.base("handbook")
    text, is_retried = Editions.read_text, False

    async def slow(self: Editions, *given: Any) -> Extracted:
        nonlocal is_retried
        found = await text(self, *given)
        if not is_retried:
            is_retried = True
            await scene.rows("UPDATE k.document SET state = 'processing'")
        return found

    monkeypatch.setattr(Editions, "read_text", slow)
    await library.change_recipe(base, OTHER)
    await scene.drain()
    assert is_retried
    assert await editions(scene) == [(base.edition.id, 1)]

    await scene.rows("UPDATE k.document SET state = 'failed'")
    await scene.drain(scheduled=True)
    after = await library.base("handbook")
    assert after.edition.recipe == OTHER
    assert await editions(scene) == [(after.edition.id, 1)]


async def test_a_document_whose_file_is_gone_is_embedded_from_its_text(
    scene: Scene, library: Library
) -> None:
    await scene.bring(library, {"a.md": FOX})
    before = await scene.rows("SELECT heading, text FROM k.chunk")
    await scene.rows("UPDATE k.document SET stored = false")
    await library.change_recipe(await library.base("handbook"), OTHER)
    await scene.drain()

    assert (await library.base("handbook")).edition.recipe == OTHER
    assert await scene.rows("SELECT heading, text FROM k.chunk") == before


async def test_edition_with_failures_is_not_published(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.bring(library, {"a.md": FOX, "b.md": HEN})
    before = await library.base("handbook")
    run = DocumentJob.run

    async def fails(self: DocumentJob) -> object:
        if self._work.path == "b.md":
            raise RuntimeError("no luck")
        return await run(self)

    with monkeypatch.context() as patch:
        patch.setattr(DocumentJob, "run", fails)
        await library.change_recipe(before, OTHER)
        await scene.drain(scheduled=True)
    stuck = await library.base("handbook")
    assert stuck.edition == before.edition
    assert "1 of 2 documents" in (stuck.next_error or "")

    # Once more, for what is missing alone.
    batch = await library.change_recipe(before, OTHER)
    assert batch is not None
    await scene.drain()
    assert (await scene.app.get_batch(batch)).total == 1
    assert (await library.base("handbook")).edition.recipe == OTHER


async def test_going_back_to_what_is_searched_ends_the_building(
    scene: Scene, library: Library
) -> None:
    await scene.bring(library, {"a.md": FOX})
    before = await library.base("handbook")
    await library.change_recipe(before, OTHER)
    assert await library.change_recipe(before, before.edition.recipe) is None
    await scene.drain()

    after = await library.base("handbook")
    assert (after.edition, after.next_edition) == (before.edition, None)
    assert await editions(scene) == [(before.edition.id, 1)]


async def test_a_change_that_breaks_off_goes_on_and_adds_nothing_twice(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.bring(library, {"a.md": FOX, "b.md": HEN})
    batch = await library.change_recipe(await library.base("handbook"), OTHER)
    assert batch is not None
    unbuilt, asked = Editions.list_unbuilt, 0

    async def breaks(self: Editions, *given: Any) -> list[VersionToIngest]:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise ConnectionResetError
        return await unbuilt(self, *given)

    monkeypatch.setattr(Editions, "list_unbuilt", breaks)
    await scene.drain(scheduled=True)
    assert asked > 2
    assert (await library.base("handbook")).edition.recipe == OTHER
    assert (await scene.app.get_batch(batch)).total == 2


async def test_who_began_with_an_edition_that_was_retired_begins_again(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.add(library, {"a.md": FOX})
    base = await library.base("handbook")
    run, switched = DocumentJob.run, False

    async def late(self: DocumentJob) -> object:
        nonlocal switched
        if not switched:
            switched = True
            embedder = scene.runtime.embedder(OTHER.embedding)
            new = NewEdition(OTHER, embedder.fingerprint, embedder.dimensions)
            async with library.transaction() as on:
                edition = await scene.runtime.editions.begin_building(on, "acme", base.id, new)
                await scene.runtime.bases.make_live(on, base.id, edition)
        return await run(self)

    monkeypatch.setattr(DocumentJob, "run", late)
    await scene.drain()
    assert (await library.progress()).completed == 1
    assert await editions(scene) == [((await library.base("handbook")).edition.id, 1)]
