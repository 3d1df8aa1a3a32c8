"""Search in more chunks than are compared one by one."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from penstock import Database as Address
from penstock_apps.knowledge.search import EditionGroup, Filters, Hit, Mode, Query, Searcher
from penstock_apps.knowledge.store.tables import TablePool
from tests.fixtures.database import Database, create, drop
from tests.fixtures.server import PostgresServer
from tests.knowledge.search.shelf import SCHEMA

BIG, SMALL, K = 1, 2, 10
BIG_SOURCE, SMALL_SOURCE = 1, 2
ANY = Filters()
VECTOR = (0.3, -0.2, 0.1, 0.4, -0.1, 0.2, 0.05, -0.3)

# The first edition has 5,400 chunks, the second 200. Every chunk has a document of its own; one in
# twenty is of the small source.
MANY = f"""
SELECT setseed(0.5);
INSERT INTO {SCHEMA}.base (tenant, name) SELECT 'acme', n::text FROM generate_series(1, 2) AS n;
INSERT INTO {SCHEMA}.edition (tenant, base, settings, embedder, dimensions)
SELECT 'acme', n, '{{}}', 'random', 8 FROM generate_series(1, 2) AS n;
INSERT INTO {SCHEMA}.source (tenant, base, kind, name)
SELECT 'acme', 1, 'files', n::text FROM generate_series(1, 2) AS n;
INSERT INTO {SCHEMA}.document (tenant, base, source, path)
SELECT 'acme', 1 + (n > 5400)::integer, 1 + (n % 20 = 0)::integer, n::text
  FROM generate_series(1, 5600) AS n;
INSERT INTO {SCHEMA}.chunk (tenant, edition, hash, tokens, heading, text, embedding, words)
SELECT 'acme', d.base, d.id::text::bytea, 1, '', t.text, v.embedding,
       to_tsvector('english', t.text) || array_to_tsvector(ARRAY['_e' || d.base])
  FROM {SCHEMA}.document AS d,
       LATERAL (SELECT 'common word' || d.id % 100 || ' own' || d.id
                       || CASE d.id % 2 WHEN 0 THEN ' half' ELSE '' END
                       || CASE d.id % 3 WHEN 0 THEN ' third' ELSE '' END AS text) AS t,
       LATERAL (SELECT array_agg(random() - 0.5 + 0 * g * d.id)::real[]::halfvec AS embedding
                  FROM generate_series(1, 8) AS g) AS v;
INSERT INTO {SCHEMA}.passage (tenant, document, edition, position, chunk)
SELECT 'acme', convert_from(c.hash, 'utf8')::bigint, c.edition, 1, c.id FROM {SCHEMA}.chunk AS c;
SELECT {SCHEMA}.make_index_v1(1, '64MB');
"""

SCANS = f"SELECT pg_stat_get_xact_numscans('{SCHEMA}.chunk_edition_1'::regclass)"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def many(postgres: PostgresServer, knowledge_template: Database) -> AsyncIterator[Database]:
    many = await create(postgres, source=knowledge_template.name)
    async with many.connect() as connection:
        await connection.execute(MANY)
        await connection.execute(f"ANALYZE {SCHEMA}.chunk")
    yield many
    await drop(postgres, many)


async def ask(
    many: Database, *editions: int, mode: Mode = "vector", filters: Filters = ANY
) -> tuple[list[Hit], bool]:
    """What was found, and whether by way of the index of vectors."""
    async with (
        TablePool.opened(Address.of(many.url), 1) as tables,
        tables.transaction("acme") as on,
    ):
        query = Query("common word17", k=K, mode=mode, filters=filters)
        hits = await Searcher(tables).search(on, "acme", [EditionGroup(editions, VECTOR)], query)
        return hits, bool(await on.fetchval(SCANS))


async def nearest(many: Database, condition: str) -> list[int]:
    """The documents that are truly the nearest."""
    async with many.connect() as connection:
        rows = await connection.fetch(
            f"SELECT d.id FROM {SCHEMA}.chunk AS c "
            f"JOIN {SCHEMA}.document AS d ON d.id::text::bytea = c.hash WHERE {condition} "
            f"ORDER BY c.embedding <=> $1::real[]::halfvec LIMIT {K}",
            VECTOR,
        )
        return [row["id"] for row in rows]


async def test_many_chunks_are_found_by_the_index(many: Database) -> None:
    hits, by_index = await ask(many, BIG)

    assert by_index
    assert [hit.document for hit in hits] == await nearest(many, "c.edition = 1")


async def test_few_chunks_are_compared_one_by_one(many: Database) -> None:
    hits, by_index = await ask(many, SMALL)

    assert not by_index
    assert [hit.document for hit in hits] == await nearest(many, "c.edition = 2")


async def test_a_filter_that_leaves_many_is_asked_along_the_index(many: Database) -> None:
    hits, by_index = await ask(many, BIG, filters=Filters(sources=(BIG_SOURCE,)))

    assert by_index
    assert [hit.document for hit in hits] == await nearest(many, "c.edition = 1 AND d.source = 1")


async def test_a_filter_that_leaves_few_goes_first(many: Database) -> None:
    hits, by_index = await ask(many, BIG, filters=Filters(sources=(SMALL_SOURCE,)))

    assert not by_index
    assert [hit.document for hit in hits] == await nearest(many, "c.edition = 1 AND d.source = 2")


async def test_what_the_index_does_not_reach_is_found_too(many: Database) -> None:
    """The index gives up after a number of chunks; those that are asked for may come later."""
    async with (
        TablePool.opened(Address.of(many.url), 1) as tables,
        tables.transaction("acme") as on,
    ):
        await on.execute("SET LOCAL hnsw.max_scan_tuples = 1")
        await on.execute(
            f"UPDATE {SCHEMA}.document SET deleted_at = now() WHERE base = 1 AND id > {K}"
        )
        hits = await Searcher(tables).search(
            on, "acme", [EditionGroup((BIG,), VECTOR)], Query("common", k=K, mode="vector")
        )
        await on.execute("UPDATE penstock_knowledge.document SET deleted_at = NULL")
    assert sorted(hit.document for hit in hits) == list(range(1, K + 1))


async def test_common_words_are_not_all_looked_at(many: Database) -> None:
    """Every chunk has the one, 54 have the other: these come first."""
    hits, _ = await ask(many, BIG, mode="words")

    assert len(hits) == K
    assert all(hit.document % 100 == 17 for hit in hits)


async def test_a_question_of_common_words_is_answered(many: Database) -> None:
    async with (
        TablePool.opened(Address.of(many.url), 1) as tables,
        tables.transaction("acme") as on,
    ):
        hits = await Searcher(tables).search(
            on, "acme", [EditionGroup((BIG,))], Query("common", k=K, mode="words")
        )
    assert len(hits) == K


async def test_two_common_words_are_looked_for_together(many: Database) -> None:
    """Each is in more chunks than are read; those that have both come first."""
    async with (
        TablePool.opened(Address.of(many.url), 1) as tables,
        tables.transaction("acme") as on,
    ):
        hits = await Searcher(tables).search(
            on, "acme", [EditionGroup((BIG,))], Query("third half", k=K, mode="words")
        )
    assert len(hits) == K
    assert all(hit.document % 6 == 0 for hit in hits)


async def test_words_are_found_behind_many_that_do_not_pass(many: Database) -> None:
    """What is read first was deleted, and is still there."""
    async with (
        TablePool.opened(Address.of(many.url), 1) as tables,
        tables.transaction("acme") as on,
    ):
        await on.execute(f"UPDATE {SCHEMA}.document SET deleted_at = now() WHERE id <= 1000")
        hits = await Searcher(tables).search(
            on, "acme", [EditionGroup((BIG,))], Query("common", k=K, mode="words")
        )
        await on.execute(f"UPDATE {SCHEMA}.document SET deleted_at = NULL")
    assert len(hits) == K
    assert all(hit.document > 1000 for hit in hits)


@pytest.mark.parametrize("source", [BIG_SOURCE, SMALL_SOURCE])
async def test_words_with_a_filter(many: Database, source: int) -> None:
    filters = Filters(sources=(source,))
    async with (
        TablePool.opened(Address.of(many.url), 1) as tables,
        tables.transaction("acme") as on,
    ):
        hits = await Searcher(tables).search(
            on,
            "acme",
            [EditionGroup((BIG,))],
            Query("own20 own21", k=K, mode="words", filters=filters),
        )
    assert [hit.document for hit in hits] == [21 if source == BIG_SOURCE else 20]
