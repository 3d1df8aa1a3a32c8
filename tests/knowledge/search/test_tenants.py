"""Nobody finds what another tenant has, whichever way they ask."""

from collections.abc import AsyncIterator

import pytest

from penstock import Database as Address
from penstock.migrate import migrate as migrate_engine
from penstock_apps.knowledge.search import Query, Searcher
from penstock_apps.knowledge.store.schema import migrate
from penstock_apps.knowledge.store.tables import TablePool
from tests.fixtures.database import Database
from tests.knowledge.search.shelf import SCHEMA, Shelf

INNER = {
    "exact": f"search_exact_v1($1, $2, NULL, '{[0.1] * 256}', '{{}}', 10)",
    "index": f"search_index_v1($1, ($2::bigint[])[1], '{[0.1] * 256}', '{{}}', 10)",
    "words": "search_words_v1($1, $2, NULL, 10, 'english', 'cats', NULL, '{}', 10)",
}


@pytest.fixture
async def tables(knowledge_database: Database) -> AsyncIterator[TablePool]:
    """Under row level security."""
    await migrate_engine(knowledge_database.direct_url, rls=True)
    await migrate(Address.of(knowledge_database.direct_url))
    async with TablePool.opened(Address.of(knowledge_database.direct_url), 1) as tables:
        yield tables


@pytest.fixture
async def ours(tables: TablePool) -> Shelf:
    ours = await Shelf(tables, tenant="ours").build()
    await ours.add(await ours.source(), "ours.md", "Our cats sleep.")
    return ours


@pytest.fixture
async def theirs(tables: TablePool) -> Shelf:
    theirs = await Shelf(tables, tenant="theirs").build()
    await theirs.add(await theirs.source(), "theirs.md", "Their cats hunt.")
    return theirs


async def found(asker: Shelf, tenant: str, target: Shelf, *, confined: bool = True) -> set[str]:
    """What the asker's transaction finds in the target's edition, for a tenant that it names."""
    paths = set()
    async with asker.tables.transaction(asker.tenant, confined=confined) as on:
        for mode in ("hybrid", "vector", "words"):
            query = Query("cats", mode=mode)
            hits = await Searcher(asker.tables).search(on, tenant, [target.group("cats")], query)
            paths |= {hit.path for hit in hits}
    return paths


async def test_a_tenant_finds_its_own(ours: Shelf, theirs: Shelf) -> None:
    assert await found(ours, "ours", ours) == {"ours.md"}


async def test_another_s_edition_is_empty(ours: Shelf, theirs: Shelf) -> None:
    assert await found(ours, "ours", theirs) == set()
    assert await found(ours, "ours", theirs, confined=False) == set(), "nor for the owner"


async def test_another_s_name_opens_nothing(ours: Shelf, theirs: Shelf) -> None:
    assert await found(ours, "theirs", theirs) == set()


async def test_no_tenant_finds_nothing(ours: Shelf) -> None:
    nobody = Shelf(ours.tables, tenant="")

    assert await found(nobody, "ours", ours) == set()
    assert await found(nobody, "", ours) == set()


async def test_who_owns_the_tables_names_the_tenant(ours: Shelf, theirs: Shelf) -> None:
    assert await found(ours, "theirs", theirs, confined=False) == {"theirs.md"}


@pytest.mark.parametrize("inner", INNER)
async def test_the_parts_of_search_are_under_row_level_security(
    inner: str, ours: Shelf, theirs: Shelf
) -> None:
    for asker in (ours, theirs):
        async with asker.tables.transaction(asker.tenant, confined=True) as on:
            await on.execute(f"SET LOCAL search_path = {SCHEMA}, public")
            rows = await on.fetch(f"SELECT * FROM {INNER[inner]}", "theirs", [theirs.edition])
        assert len(rows) == (asker is theirs)


async def test_places_are_under_row_level_security(ours: Shelf, theirs: Shelf) -> None:
    async with ours.tables.transaction("ours", confined=True) as on:
        rows = await on.fetch(f"SELECT * FROM {SCHEMA}.search_place_v1")
    assert [row["path"] for row in rows] == ["ours.md"]
