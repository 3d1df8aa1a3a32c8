"""A worker of knowledge that owns nothing: its login has the roles of workers and of apps."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock import Database as Address
from penstock import Penstock
from penstock.migrate import migrate
from penstock.sql import rls
from penstock_apps.knowledge.chunk import Chunking
from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.maintenance.sweep import sweep
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.search import Query
from penstock_apps.knowledge.store.bases import Recipe
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until
from tests.knowledge.scene import Scene, worker_of
from tests.rls.conftest import way_in

OTHER = Recipe(Embedding(dimensions=128), Chunking())
LOGIN = f"penstock_knowledge_worker_{os.getpid()}"
PAGES: dict[str, str | bytes] = {f"{n}.md": f"# Page {n}\n\nThis is page {n}." for n in range(6)}


@pytest.fixture
async def hired(knowledge_database: Database) -> AsyncIterator[str]:
    """The address for a login that has both roles and owns nothing."""
    async with connected(knowledge_database.admin_url) as admin:
        await admin.execute(rls("roles", "penstock"))
        await admin.execute(
            f"CREATE ROLE {LOGIN} LOGIN; GRANT penstock_worker, penstock_app TO {LOGIN}"
        )
        await migrate(knowledge_database.direct_url, rls=True)
        await Knowledge(Penstock()).migrate(Address.of(knowledge_database.direct_url))
        yield await way_in(knowledge_database, LOGIN)
        await admin.execute(f"DROP ROLE {LOGIN}")


@pytest.mark.timeout(400)
async def test_it_does_all_of_the_work(
    hired: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_STORAGE", str(tmp_path / "objects"))
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_INDEX_FROM", "3")
    knowledge = Knowledge(app := Penstock(hired))
    async with app, knowledge.opened() as runtime:
        scene, library = (
            Scene(knowledge, runtime, tmp_path / "files"),
            knowledge.of(runtime, "acme"),
        )
        async with worker_of(app):
            receipt = await scene.add(library, PAGES)
            await scene.ended(library, receipt)
            assert (await library.progress()).completed == len(PAGES)
            [hit] = await library.search(Query("page 4", k=1))
            assert hit.path == "4.md"
            await until(lambda: has_index(runtime), 90, what="an index")

            base = await library.base("handbook")
            await library.change_recipe(base, OTHER)
            await until(lambda: is_switched(library), 90, what="the other edition")
            swept = await app.for_tenant("acme").enqueue(sweep)
            await app.for_tenant("acme").wait(swept, timeout=60)
            await library.delete_tenant()
            await until(lambda: is_gone(scene), 90, what="the end of a tenant")


async def has_index(runtime: KnowledgeRuntime) -> bool:
    async with runtime.tables.transaction_of_all() as on:
        return any(each.is_complete for each in await runtime.indexes.all(on))


async def is_switched(library: Library) -> bool:
    return (await library.base("handbook")).edition.recipe == OTHER


async def is_gone(scene: Scene) -> bool:
    return await scene.left("acme") == {}
