"""A base that has grown large gets an index of its own, and nobody has to see to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from penstock import Database as Address
from penstock import Penstock
from penstock.migrate import migrate
from penstock.sql import rls
from penstock_apps.knowledge.chunk import Chunking
from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.pipeline import editions, indexing
from penstock_apps.knowledge.pipeline.sweeping import Sweeping
from penstock_apps.knowledge.search import Query
from penstock_apps.knowledge.store.bases import Recipe
from penstock_apps.knowledge.store.indexes import Indexes
from penstock_apps.knowledge.store.shelves import Shelves
from penstock_apps.knowledge.workshop import Workshop
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until
from tests.knowledge.scene import Scene

# So few are many here.
FROM = 3
LOCK = "SELECT pg_advisory_lock(hashtextextended('penstock knowledge indexes', 0))"
SCANS = "SELECT sum(idx_scan)::bigint FROM pg_stat_user_indexes WHERE indexrelname LIKE $1"
OTHER = Recipe(Embedding(dimensions=128), Chunking())


@pytest.fixture
def objects(objects: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_INDEX_FROM", str(FROM))
    return objects


def pages(number: int, about: str = "Foxes") -> dict[str, str | bytes]:
    return {f"{about} {n}.md": f"# {about} {n}\n\nNumber {n} of {about}." for n in range(number)}


async def indexes(scene: Scene) -> list[tuple[int, bool]]:
    """The editions that have one, and whether it is whole."""
    async with scene.shop.shelves.of_all() as on:
        return [(each.edition, each.whole) for each in await scene.shop.indexes.all(on)]


async def edition(library: Library) -> int:
    return (await library.base("handbook")).edition.id


@asynccontextmanager
async def another_is_made(database: Database) -> AsyncIterator[None]:
    """Somebody else makes an index, for as long as the block lasts."""
    async with connected(database.direct_url) as on:
        await on.execute(LOCK)
        yield


async def test_a_base_that_is_large_at_the_end_of_a_batch_has_an_index(
    scene: Scene, library: Library
) -> None:
    await scene.bring(library, pages(FROM))
    assert await indexes(scene) == []

    await scene.bring(library, pages(FROM + 1))
    assert await indexes(scene) == [(await edition(library), True)]


async def test_search_uses_it(scene: Scene, library: Library) -> None:
    await scene.bring(library, pages(8) | {"hens.md": "# Hens\n\nA hen sits on its eggs."})
    [hit] = await library.search(Query("Who sits on eggs?", k=1, mode="vector"))

    assert hit.path == "hens.md"
    name = f"chunk_edition_{await edition(library)}"

    async def scanned() -> bool:
        return bool(await scene.value(SCANS, name))

    await until(scanned, what="a scan of the index")


async def test_what_comes_in_later_is_found_too(scene: Scene, library: Library) -> None:
    await scene.bring(library, pages(8))
    await scene.bring(library, {"hens.md": "# Hens\n\nA hen sits on its eggs."})

    [hit] = await library.search(Query("Who sits on eggs?", k=1, mode="vector"))
    assert hit.path == "hens.md"


async def test_large_and_small_bases_are_searched_together(scene: Scene, library: Library) -> None:
    await scene.bring(library, pages(8))
    await scene.bring(library, {"hens.md": "# Hens\n\nA hen sits on its eggs."}, base="farm")

    hits = await library.search(Query("Who sits on eggs?", k=9, mode="vector"))
    assert len(hits) == 9
    assert hits[0].path == "hens.md"


async def test_an_edition_has_its_index_before_it_is_searched(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.bring(library, pages(8))
    before = await edition(library)
    live = scene.shop.bases.make_live
    found = []

    async def looks(self: object, on: asyncpg.Connection, base: int, edition: int) -> None:
        found.extend(await indexes(scene))
        await live(on, base, edition)

    monkeypatch.setattr(type(scene.shop.bases), "make_live", looks)
    await library.change_recipe(await library.base("handbook"), OTHER)
    await scene.drain(scheduled=True)

    after = await edition(library)
    assert found == [(before, True), (after, True)]
    # That of the old one is gone with it.
    assert await indexes(scene) == [(after, True)]


async def test_an_index_that_does_not_come_keeps_no_edition_from_being_searched(
    scene: Scene, library: Library, knowledge_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.bring(library, pages(8))
    monkeypatch.setattr(editions, "INDEX_PATIENCE", timedelta(0))
    async with another_is_made(knowledge_database):
        await library.change_recipe(await library.base("handbook"), OTHER)
        await scene.drain()

        assert (await library.base("handbook")).edition.recipe == OTHER
        assert len(await library.search(Query("foxes", k=8, mode="vector"))) == 8

    # It gets one later, and what could not be dropped goes.
    assert await Sweeping(scene.shop).indexes() == 2
    await scene.drain()
    assert await indexes(scene) == [(await edition(library), True)]


async def test_a_long_transaction_keeps_nothing_from_being_removed(
    scene: Scene, library: Library, knowledge_database: Database
) -> None:
    """Dropping an index waits for all who use the table, as a dump does for an hour."""
    await scene.bring(library, pages(8))
    async with connected(knowledge_database.direct_url) as dump, dump.transaction():
        await dump.fetch("SELECT FROM penstock_knowledge.chunk LIMIT 1")
        await library.delete_base((await library.base("handbook")).id)
        await scene.drain()
        assert await scene.left("acme") == {"usage": 8}
    assert await Sweeping(scene.shop).indexes() == 1
    assert await indexes(scene) == []


async def test_a_base_that_is_removed_takes_its_index_along(scene: Scene, library: Library) -> None:
    await scene.bring(library, pages(8))
    base = await library.base("handbook")
    await library.delete_base(base.id)
    await scene.drain()
    assert await indexes(scene) == []


async def test_what_is_left_of_an_index_is_swept(
    scene: Scene, library: Library, shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.bring(library, pages(8))

    async def fails(self: Indexes, edition: int) -> bool:
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Indexes, "drop", fails)
        await library.delete_base((await library.base("handbook")).id)
        await scene.drain()
    assert len(await indexes(scene)) == 1

    assert await Sweeping(shop).indexes() == 1
    assert await indexes(scene) == []


async def break_off(database: Database) -> None:
    """As an index is left that somebody's end has interrupted."""
    async with connected(database.admin_url) as admin:
        await admin.execute(
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid::regclass::text LIKE '%chunk_edition_%'"
        )


@pytest.mark.parametrize("is_pooled", [False, True])
async def test_an_index_that_broke_off_is_made_again(
    scene: Scene,
    library: Library,
    shop: Workshop,
    knowledge_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    is_pooled: bool,
) -> None:
    if is_pooled:
        monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 1)
    await scene.bring(library, pages(8))
    await break_off(knowledge_database)
    assert await indexes(scene) == [(await edition(library), False)]
    # Meanwhile nobody relies on it.
    assert len(await library.search(Query("foxes", k=8, mode="vector"))) == 8

    assert await Sweeping(shop).indexes() > 0
    await scene.drain(scheduled=True)
    assert await indexes(scene) == [(await edition(library), True)]


async def test_what_broke_off_and_is_not_needed_any_more_goes(
    scene: Scene, library: Library, shop: Workshop, knowledge_database: Database
) -> None:
    receipt = await scene.bring(library, pages(8))
    await break_off(knowledge_database)
    for each in receipt.documents[FROM:]:
        await library.delete_document(each.id)
    await scene.drain()

    assert await Sweeping(shop).indexes() == 1
    assert await indexes(scene) == []


async def test_an_index_that_is_there_is_not_made_again(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was missing when its job began, and came while that waited for its turn."""
    await scene.bring(library, pages(8))
    oid = "SELECT oid FROM pg_class WHERE relname LIKE 'chunk_edition_%'"
    before = await scene.value(oid)

    async def missing(shop: Workshop, edition: int) -> bool:
        return True

    monkeypatch.setattr(indexing, "is_due", missing)
    job = await scene.app.enqueue(indexing.index, await edition(library))
    await scene.drain()
    assert await scene.app.wait(job) == "there"
    assert await scene.value(oid) == before


async def test_an_index_that_never_came_is_found_missing(
    scene: Scene, library: Library, shop: Workshop
) -> None:
    await scene.bring(library, pages(8))
    assert await shop.indexes.drop(await edition(library))

    assert await Sweeping(shop).indexes() == 1
    await scene.drain()
    assert await indexes(scene) == [(await edition(library), True)]


async def test_what_is_not_searched_any_more_gets_none(
    scene: Scene, library: Library, shop: Workshop
) -> None:
    await scene.bring(library, pages(2))
    base = await library.base("handbook")
    await scene.rows("UPDATE k.edition SET state = 'retired'")
    for _ in range(2):
        async with shop.indexes.turn() as maker:
            assert maker is not None
            assert await maker.make(base.edition.id, 64 * 1024 * 1024)
    assert await indexes(scene) == []


async def test_a_load_that_goes_on_gets_its_index_when_it_is_much(
    scene: Scene, library: Library, shop: Workshop
) -> None:
    base = await library.make_base("handbook")
    source = (await scene.bring(library, pages(2))).source
    async with library.intake(base, source) as intake:
        await intake.add(scene.files(pages(8)))
        await scene.drain()
        assert await indexes(scene) == []

        assert await indexing.tend(shop, 10, 9) == 0
        assert await indexing.tend(shop, 10, 8) == 1
        await scene.drain()
        assert await indexes(scene) == [(base.edition.id, True)]


async def test_two_are_never_made_at_once(
    scene: Scene, library: Library, knowledge_database: Database
) -> None:
    async with another_is_made(knowledge_database):
        await scene.bring(library, pages(8))
        assert await indexes(scene) == []
        [waiting] = (await scene.app.list(task="knowledge.index")).jobs
        assert waiting.state == "scheduled"

    await scene.drain(scheduled=True)
    assert await indexes(scene) == [(await edition(library), True)]


async def test_more_than_so_many_are_not_made(
    scene: Scene,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(indexing, "MOST", 1)
    await scene.bring(library, pages(8))
    await scene.bring(library, pages(8, "Hens"), base="farm")

    assert await indexes(scene) == [(await edition(library), True)]
    assert "gets no index: there are 1 already" in caplog.text
    [hit] = await library.search(Query("Number 7 of Hens", k=1, mode="vector"), ["farm"])
    assert hit.path == "Hens 7.md"


async def test_behind_a_pooler_it_is_made_while_writers_wait(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler has process ids of its own, by which it is known."""
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 1)
    await scene.bring(library, pages(8))
    assert await indexes(scene) == [(await edition(library), True)]

    await library.delete_base((await library.base("handbook")).id)
    await scene.drain()
    assert await indexes(scene) == []


@pytest.mark.parametrize("is_pooled", [False, True])
async def test_several_bases_that_grow_at_once_all_get_theirs(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch, is_pooled: bool
) -> None:
    """They take turns, and take no connection from each other while they do."""
    if is_pooled:
        monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 1)
    with monkeypatch.context() as patch:
        patch.setattr(indexing, "MOST", 0)
        for name in ("one", "two", "three", "four"):
            await scene.bring(library, pages(8, name), base=name)
    bases = await library.bases()
    await scene.app.enqueue_many(indexing.index.prepare(each.edition.id) for each in bases)
    async with asyncio.timeout(60):
        await scene.drain(scheduled=True)
    assert await indexes(scene) == sorted((each.edition.id, True) for each in bases)


async def test_too_little_shared_memory_is_no_obstacle(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several processes build an index in memory that they share; one alone needs none."""
    execute = asyncpg.Connection.execute
    alone = False

    async def refuses(self: asyncpg.Connection, query: str, *args: object) -> str:
        nonlocal alone
        alone = alone or "max_parallel_maintenance_workers = 0" in query
        if "CREATE INDEX" in query and not alone:
            raise asyncpg.DiskFullError("could not resize shared memory segment")
        return await execute(self, query, *args)

    monkeypatch.setattr(asyncpg.Connection, "execute", refuses)
    await scene.bring(library, pages(8))
    assert alone
    assert await indexes(scene) == [(await edition(library), True)]


async def test_a_worker_that_does_not_own_the_tables_has_it_made(
    scene: Scene, library: Library, knowledge_database: Database
) -> None:
    base = await library.make_base("handbook")
    async with connected(knowledge_database.admin_url) as admin:
        await admin.execute(rls("roles", "penstock"))
    await migrate(knowledge_database.direct_url, rls=True)
    await Knowledge(Penstock()).migrate(Address.of(knowledge_database.direct_url))

    url = knowledge_database.admin_url
    hired_url = f"{url}{'&' if '?' in url else '?'}options=-c%20role%3Dpenstock_worker"
    async with Shelves.opened(Address.of(hired_url), 1) as shelves:
        hired = Indexes(shelves)
        async with hired.turn() as maker:
            assert maker is not None
            assert await maker.make(base.edition.id, 64 * 1024 * 1024)
        assert await indexes(scene) == [(base.edition.id, True)]
        async with another_is_made(knowledge_database):
            assert not await hired.drop(base.edition.id)
        assert await hired.drop(base.edition.id)
    assert await indexes(scene) == []


async def test_the_name_of_a_schema_may_have_capitals(
    knowledge_database: Database, objects: Path, tmp_path: Path
) -> None:
    await migrate(knowledge_database.direct_url, schema="Acme")
    knowledge = Knowledge(app := Penstock(knowledge_database.url, schema="Acme"))
    await knowledge.migrate(Address.of(knowledge_database.direct_url, schema="Acme"))
    async with app, knowledge.opened() as shop:
        scene, library = Scene(knowledge, shop, tmp_path / "files"), knowledge.of(shop, "acme")
        await scene.bring(library, pages(8))
        assert await indexes(scene) == [(await edition(library), True)]
        assert len(await library.search(Query("foxes", k=8))) == 8
