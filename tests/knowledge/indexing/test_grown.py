"""A base that is large and has its index: what is searched, what goes, what is mended.

Each test begins with a copy of a database in which there is one.
"""

import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.maintenance import reembed, vector_index
from penstock_apps.knowledge.maintenance.sweep import KnowledgeSweeper
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.search import Query
from penstock_apps.knowledge.store.vector_indexes import Indexes
from tests.fixtures.database import Database, connected, copied
from tests.fixtures.server import PostgresServer
from tests.fixtures.until import until
from tests.knowledge.indexing.conftest import (
    FROM,
    OTHER,
    another_is_made,
    edition,
    indexes,
    pages,
)
from tests.knowledge.prepared import Prepared, prepared
from tests.knowledge.scene import Scene

ALL = pages(FROM) | {"hens.md": "# Hens\n\nA hen sits on its eggs."}
OWL = {"owls.md": "# Owls\n\nAn owl hears well in the dark."}
SCANS = "SELECT sum(idx_scan)::bigint FROM pg_stat_user_indexes WHERE indexrelname LIKE $1"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def grown(
    postgres: PostgresServer,
    knowledge_template: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Prepared]:
    folder = tmp_path_factory.mktemp("grown")
    async with prepared(postgres, knowledge_template, folder, ALL, INDEX_FROM=str(FROM)) as made:
        yield made


@pytest.fixture
async def knowledge_database(
    postgres: PostgresServer, grown: Prepared, request: pytest.FixtureRequest
) -> AsyncIterator[Database]:
    async with copied(postgres, grown.database, request.node) as database:
        yield database


@pytest.fixture
def objects(objects: Path, grown: Prepared) -> Path:
    shutil.copytree(grown.objects, objects)
    return objects


async def test_search_uses_it(scene: Scene, library: Library) -> None:
    [hit] = await library.search(Query("Who sits on eggs?", k=1, mode="vector"))

    assert hit.path == "hens.md"
    name = f"chunk_edition_{await edition(library)}"

    async def scanned() -> bool:
        # A session tells what it did at once only if it is asked to.
        async with scene.runtime.tables.transaction_of_all() as on:
            await on.execute("SELECT pg_stat_force_next_flush()")
        return bool(await scene.value(SCANS, name))

    await until(scanned, what="a scan of the index")


async def test_what_comes_in_later_is_found_too(scene: Scene, library: Library) -> None:
    await scene.bring(library, OWL)

    [hit] = await library.search(Query("Who hears in the dark?", k=1, mode="vector"))
    assert hit.path == "owls.md"


async def test_large_and_small_bases_are_searched_together(scene: Scene, library: Library) -> None:
    await scene.bring(library, OWL, base="wood")

    hits = await library.search(Query("Who hears in the dark?", k=9, mode="vector"))
    assert len(hits) == len(ALL) + 1
    assert hits[0].path == "owls.md"


async def test_an_edition_has_its_index_before_it_is_searched(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await edition(library)
    live = scene.runtime.bases.make_live
    found = []

    async def looks(self: object, on: asyncpg.Connection, base: int, edition: int) -> None:
        found.extend(await indexes(scene))
        await live(on, base, edition)

    monkeypatch.setattr(type(scene.runtime.bases), "make_live", looks)
    await library.change_recipe(await library.base("handbook"), OTHER)
    await scene.drain(scheduled=True)

    after = await edition(library)
    assert found == [(before, True), (after, True)]
    # That of the old one is gone with it.
    assert await indexes(scene) == [(after, True)]


async def test_edition_is_searched_without_its_index(
    scene: Scene, library: Library, knowledge_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reembed, "MAX_WAIT_FOR_INDEX", timedelta(0))
    async with another_is_made(knowledge_database):
        await library.change_recipe(await library.base("handbook"), OTHER)
        await scene.drain()

        assert (await library.base("handbook")).edition.recipe == OTHER
        assert len(await library.search(Query("foxes", k=9, mode="vector"))) == len(ALL)

    # It gets one later, and what could not be dropped goes.
    assert await KnowledgeSweeper(scene.runtime).indexes() == 2
    await scene.drain()
    assert await indexes(scene) == [(await edition(library), True)]


async def test_a_long_transaction_keeps_nothing_from_being_removed(
    scene: Scene, library: Library, knowledge_database: Database
) -> None:
    """Dropping an index waits for all who use the table, as a dump does for an hour."""
    async with connected(knowledge_database.direct_url) as dump, dump.transaction():
        await dump.fetch("SELECT FROM penstock_knowledge.chunk LIMIT 1")
        await library.delete_base((await library.base("handbook")).id)
        await scene.drain()
        assert (await scene.left("acme")).keys() == {"usage"}
    assert await KnowledgeSweeper(scene.runtime).indexes() == 1
    assert await indexes(scene) == []


async def test_a_base_that_is_removed_takes_its_index_along(scene: Scene, library: Library) -> None:
    base = await library.base("handbook")
    await library.delete_base(base.id)
    await scene.drain()
    assert await indexes(scene) == []


async def test_what_is_left_of_an_index_is_swept(
    scene: Scene, library: Library, runtime: KnowledgeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def fails(self: Indexes, edition: int) -> bool:
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Indexes, "drop", fails)
        await library.delete_base((await library.base("handbook")).id)
        await scene.drain()
    assert len(await indexes(scene)) == 1

    assert await KnowledgeSweeper(runtime).indexes() == 1
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
    runtime: KnowledgeRuntime,
    knowledge_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    is_pooled: bool,
) -> None:
    if is_pooled:
        monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 1)
    await break_off(knowledge_database)
    assert await indexes(scene) == [(await edition(library), False)]
    # Meanwhile nobody relies on it.
    assert len(await library.search(Query("foxes", k=9, mode="vector"))) == len(ALL)

    assert await KnowledgeSweeper(runtime).indexes() > 0
    await scene.drain(scheduled=True)
    assert await indexes(scene) == [(await edition(library), True)]


async def test_what_broke_off_and_is_not_needed_any_more_goes(
    scene: Scene, library: Library, runtime: KnowledgeRuntime, knowledge_database: Database
) -> None:
    await break_off(knowledge_database)
    held = await library.list_held(await library.base("handbook"), "files", "folder")
    await library.delete_document(held["hens.md"].id)
    await scene.drain()

    assert await KnowledgeSweeper(runtime).indexes() == 1
    assert await indexes(scene) == []


async def test_an_index_that_is_there_is_not_made_again(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was missing when its job began, and came while that waited for its turn."""
    oid = "SELECT oid FROM pg_class WHERE relname LIKE 'chunk_edition_%'"
    before = await scene.value(oid)

    async def missing(runtime: KnowledgeRuntime, edition: int) -> bool:
        return True

    monkeypatch.setattr(vector_index, "is_due", missing)
    job = await scene.app.enqueue(vector_index.index, await edition(library))
    await scene.drain()
    assert await scene.app.wait(job) == "there"
    assert await scene.value(oid) == before


async def test_an_index_that_never_came_is_found_missing(
    scene: Scene, library: Library, runtime: KnowledgeRuntime
) -> None:
    assert await runtime.indexes.drop(await edition(library))

    assert await KnowledgeSweeper(runtime).indexes() == 1
    await scene.drain()
    assert await indexes(scene) == [(await edition(library), True)]


async def test_more_than_so_many_are_not_made(
    scene: Scene,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(vector_index, "MAX_INDEXES", 1)
    await scene.bring(library, pages(FROM + 1, "Owls"), base="wood")

    assert await indexes(scene) == [(await edition(library), True)]
    assert "gets no vector index, because there are 1 already" in caplog.text
    [hit] = await library.search(Query(f"Number {FROM} of Owls", k=1, mode="vector"), ["wood"])
    assert hit.path == f"Owls {FROM}.md"
