"""A base that has grown large gets an index of its own, and nobody has to see to it."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from penstock import Database as Address
from penstock import Penstock
from penstock.migrate import migrate
from penstock.sql import rls
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.maintenance import vector_index
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.search import Query
from penstock_apps.knowledge.store.tables import TablePool
from penstock_apps.knowledge.store.vector_indexes import Indexes
from tests.fixtures.database import Database, connected
from tests.knowledge.indexing.conftest import FROM, another_is_made, edition, indexes, pages
from tests.knowledge.scene import Scene


async def test_a_base_that_is_large_at_the_end_of_a_batch_has_an_index(
    scene: Scene, library: Library
) -> None:
    await scene.bring(library, pages(FROM))
    assert await indexes(scene) == []

    await scene.bring(library, pages(FROM + 1))
    assert await indexes(scene) == [(await edition(library), True)]


async def test_what_is_not_searched_any_more_gets_none(
    scene: Scene, library: Library, runtime: KnowledgeRuntime
) -> None:
    base = await library.make_base("handbook")
    await scene.rows("UPDATE k.edition SET state = 'retired'")
    for _ in range(2):
        async with runtime.indexes.exclusive_builder() as builder:
            assert builder is not None
            assert await builder.make(base.edition.id, 64 * 1024 * 1024)
    assert await indexes(scene) == []


async def test_a_load_that_goes_on_gets_its_index_when_it_is_much(
    scene: Scene, library: Library, runtime: KnowledgeRuntime
) -> None:
    base = await library.make_base("handbook")
    source = (await scene.bring(library, pages(2))).source
    async with library.intake(base, source) as intake:
        await intake.add(scene.files(pages(8)))
        await scene.drain()
        assert await indexes(scene) == []

        assert await vector_index.maintain_indexes(runtime, 10, 9) == 0
        assert await vector_index.maintain_indexes(runtime, 10, 8) == 1
        await scene.drain()
        assert await indexes(scene) == [(base.edition.id, True)]


async def test_two_are_never_made_at_once(
    scene: Scene, library: Library, knowledge_database: Database
) -> None:
    async with another_is_made(knowledge_database):
        await scene.bring(library, pages(FROM + 1))
        assert await indexes(scene) == []
        [waiting] = (await scene.app.list(task="knowledge.index")).jobs
        assert waiting.state == "scheduled"

    await scene.drain(scheduled=True)
    assert await indexes(scene) == [(await edition(library), True)]


async def test_behind_a_pooler_it_is_made_while_writers_wait(
    scene: Scene, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler has process ids of its own, by which it is known."""
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda self: 1)
    await scene.bring(library, pages(FROM + 1))
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
        patch.setattr(vector_index, "MAX_INDEXES", 0)
        for name in ("one", "two", "three", "four"):
            await scene.add(library, pages(FROM + 1, name), base=name)
        await scene.drain()
    bases = await library.bases()
    await scene.app.enqueue_many(vector_index.index.prepare(each.edition.id) for each in bases)
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
    await scene.bring(library, pages(FROM + 1))
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
    async with TablePool.opened(Address.of(hired_url), 1) as tables:
        hired = Indexes(tables)
        async with hired.exclusive_builder() as builder:
            assert builder is not None
            assert await builder.make(base.edition.id, 64 * 1024 * 1024)
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
    async with app, knowledge.opened() as runtime:
        scene, library = (
            Scene(knowledge, runtime, tmp_path / "files"),
            knowledge.of(runtime, "acme"),
        )
        await scene.bring(library, pages(FROM + 1))
        assert await indexes(scene) == [(await edition(library), True)]
        assert len(await library.search(Query("foxes", k=9))) == FROM + 1
