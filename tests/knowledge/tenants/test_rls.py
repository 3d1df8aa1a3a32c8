"""Row level security: who is set to one tenant has nothing of another, whatever it asks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from penstock import Database as Address
from penstock import Penstock
from penstock.migrate import migrate
from penstock.sql import rls
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from tests.fixtures.database import Database, connected
from tests.knowledge.scene import Scene

VECTOR = "'[1,0]'::halfvec"
# A row for every table, of tenant {t} with the id {n}. A table that is not here fails a test.
SEEDS = {
    "tenant": "(tenant) VALUES ('{t}')",
    "usage": "(tenant, slot) VALUES ('{t}', 1)",
    "base": "(id, tenant, name) OVERRIDING SYSTEM VALUE VALUES ({n}, '{t}', 'base')",
    "edition": "(id, tenant, base, settings, embedder, dimensions) OVERRIDING SYSTEM VALUE"
    " VALUES ({n}, '{t}', {n}, '{{}}', 'model', 2)",
    "source": "(id, tenant, base, kind, name) OVERRIDING SYSTEM VALUE"
    " VALUES ({n}, '{t}', {n}, 'files', 'source')",
    "object": "(tenant, digest, name, bytes) VALUES ('{t}', '\\x01', 'name', 1)",
    "document": "(id, tenant, base, source, path) OVERRIDING SYSTEM VALUE"
    " VALUES ({n}, '{t}', {n}, {n}, 'path')",
    "tally": "(tenant, base, source, state, number) VALUES ('{t}', {n}, {n}, 'pending', 1)",
    "tally_change": "(tenant, base, source, state, number) VALUES ('{t}', {n}, {n}, 'pending', 1)",
    "chunk": "(id, tenant, edition, hash, tokens, heading, text, embedding, words)"
    " OVERRIDING SYSTEM VALUE"
    f" VALUES ({{n}}, '{{t}}', {{n}}, '\\x01', 1, '', 'secret', {VECTOR}, 'secret')",
    "passage": "(tenant, document, edition, position, chunk) VALUES ('{t}', {n}, {n}, 1, {n})",
    "draft": "(tenant, document, edition, version, attempt, position, hash, tokens, heading, text)"
    " VALUES ('{t}', {n}, {n}, 1, 1, 1, '\\x01', 1, '', 'secret')",
    "vector": f"(tenant, embedder, hash, embedding) VALUES ('{{t}}', 'model', '\\x01', {VECTOR})",
}
# What each function answers who is set to the tenant a and asks for b, whose rows have the id 2.
CALLS = {
    "describe_index_v1": ("describe_index_v1(2, '')", [None]),
    "missing_v1": ("missing_v1('b', 2, ARRAY['\\x01'::bytea])", [b"\x01"]),
    "keep_vectors_v1": (
        f"keep_vectors_v1('b', 'model', ARRAY['\\x02'::bytea], ARRAY[{VECTOR}])",
        asyncpg.InsufficientPrivilegeError,
    ),
    "publish_v1": (
        "(publish_v1('b', 2, 1, 2, ARRAY['\\x01'::bytea], ARRAY['x'], ARRAY[''], ARRAY[1],"
        f" ARRAY[NULL::integer], ARRAY[{VECTOR}], '{{}}')).answer",
        ["stale"],
    ),
    "remove_documents_v1": ("remove_documents_v1('b', ARRAY[2::bigint])", []),
    "remove_chunks_v1": ("remove_chunks_v1('b', 2, 10)", [0]),
    "search_allowed_v1": ("search_allowed_v1('b')", [False]),
    "search_exact_v1": ("search_exact_v1('b', ARRAY[2::bigint], NULL, {v}, '{{}}', 9)", []),
    "search_index_v1": ("search_index_v1('b', 2, {v}, '{{}}', 9)", []),
    "search_scope_v1": (
        "search_scope_v1('b', ARRAY[2::bigint], '{{\"documents\": [2]}}', 9)",
        [[]],
    ),
    "search_v1": (
        "(search_v1('b', ARRAY[2::bigint], ARRAY[1, 0]::real[], 'secret', 9, NULL, 'hybrid')).text",
        [],
    ),
    "search_words_v1": (
        "search_words_v1('b', ARRAY[2::bigint], NULL, 1, 'english', 'secret', '{{}}', '{{}}', 9)",
        [],
    ),
}
# Those that read no table.
PURE = {"search_admits_v1", "search_highlight_v1", "search_strict_v1"}
SCHEMA = "penstock_knowledge"


@pytest.fixture
async def secured(knowledge_database: Database) -> Database:
    """Two tenants with a row in every table, under row level security."""
    async with connected(knowledge_database.admin_url) as admin:
        await admin.execute(rls("roles", "penstock"))
    await migrate(knowledge_database.direct_url, rls=True)
    await Knowledge(Penstock()).migrate(Address.of(knowledge_database.direct_url))
    return knowledge_database


@pytest.fixture
async def seeded(secured: Database) -> Database:
    async with connected(secured.direct_url) as owner:
        await owner.execute(f"SET search_path = {SCHEMA}, public")
        for tenant, number in (("a", 1), ("b", 2)):
            for table, seed in SEEDS.items():
                values = seed.format(t=tenant, n=number)
                await owner.execute(f"INSERT INTO {SCHEMA}.{table} {values}")
    return secured


@asynccontextmanager
async def confined(database: Database, tenant: str) -> AsyncIterator[asyncpg.Connection]:
    """A transaction with the rights of the role of apps, which is rolled back."""
    async with connected(database.direct_url) as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(
            f"SET LOCAL search_path = {SCHEMA}, public; SET LOCAL ROLE penstock_app"
        )
        await connection.execute("SELECT set_config('penstock.tenant', $1, true)", tenant)
        try:
            yield connection
        finally:
            await transaction.rollback()


async def tables(database: Database) -> list[str]:
    async with connected(database.direct_url) as owner:
        rows = await owner.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'",
            SCHEMA,
        )
    return [row["relname"] for row in rows if row["relname"] != "migration"]


async def test_every_table_has_row_level_security_and_a_policy(secured: Database) -> None:
    async with connected(secured.direct_url) as owner:
        open_ones = await owner.fetch(
            "SELECT c.relname FROM pg_class AS c"
            " WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p')"
            "   AND NOT (c.relrowsecurity"
            "            AND EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = c.oid))",
            SCHEMA,
        )
        views = await owner.fetch(
            "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'v'"
            " AND NOT coalesce(reloptions && ARRAY['security_invoker=true'], false)",
            SCHEMA,
        )
    assert [*open_ones, *views] == []
    assert sorted(await tables(secured)) == sorted(SEEDS)


async def test_a_tenant_sees_no_row_of_another_and_writes_none(seeded: Database) -> None:
    for table in await tables(seeded):
        async with confined(seeded, "a") as as_a:
            seen = await as_a.fetch(f'SELECT DISTINCT tenant FROM "{table}"')
            assert [row["tenant"] for row in seen] == ["a"], table
        async with confined(seeded, "") as as_none:
            assert await as_none.fetchval(f'SELECT count(*) FROM "{table}"') == 0, table
        seed = SEEDS[table].format(t="b", n=3).replace("'\\x01'", "'\\x03'")
        for attempt in (
            f"INSERT INTO {table} {seed}",
            f"UPDATE {table} SET tenant = 'b'",
        ):
            async with confined(seeded, "a") as as_a:
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await as_a.execute(attempt)
        if table != "tenant":
            async with confined(seeded, "a") as as_a:
                done = await as_a.execute(f"DELETE FROM {table} WHERE tenant = 'b'")
                assert done == "DELETE 0", table


async def test_no_function_tells_or_changes_anything_of_another_tenant(seeded: Database) -> None:
    async with connected(seeded.direct_url) as owner:
        found = await owner.fetch(
            "SELECT p.proname FROM pg_proc AS p WHERE p.pronamespace = $1::regnamespace"
            " AND p.prorettype <> 'trigger'::regtype"
            " AND has_function_privilege('penstock_app', p.oid, 'EXECUTE')",
            SCHEMA,
        )
        before = await counted(owner, seeded)
    assert {row["proname"] for row in found} - PURE == set(CALLS)

    for name, (call, expected) in CALLS.items():
        sql = f"SELECT {call.replace('{v}', VECTOR).replace('{{}}', '{}')}"
        sql = sql.replace("{{", "{").replace("}}", "}")
        async with confined(seeded, "a") as as_a:
            if isinstance(expected, type):
                with pytest.raises(expected):
                    await as_a.fetch(sql)
                continue
            answered = [row[0] for row in await as_a.fetch(sql)]
            assert answered == expected, name
            await as_a.execute("RESET ROLE")
            assert await counted(as_a, seeded) == before, name


async def counted(on: asyncpg.Connection, database: Database) -> dict[str, Any]:
    return {
        table: await on.fetchval(f"SELECT count(*) FROM {SCHEMA}.{table} WHERE tenant = 'b'")
        for table in await tables(database)
    }


async def test_it_is_switched_off_with_that_of_the_queue(secured: Database) -> None:
    await migrate(secured.direct_url, rls=False)
    await Knowledge(Penstock()).migrate(Address.of(secured.direct_url))
    async with connected(secured.direct_url) as owner:
        left = await owner.fetchval(
            "SELECT count(*) FROM pg_class AS c LEFT JOIN pg_policy AS p ON p.polrelid = c.oid"
            " WHERE c.relnamespace = $1::regnamespace AND (c.relrowsecurity OR p.oid IS NOT NULL)",
            SCHEMA,
        )
    assert left == 0


async def test_a_confined_library_brings_in_and_deletes(
    secured: Database, scene: Scene, knowledge: Knowledge, runtime: KnowledgeRuntime
) -> None:
    library: Library = knowledge.of(runtime, "acme", confined=True)
    receipt = await scene.bring(library, {"a.txt": "The quick brown fox."})
    assert (await library.progress(source=receipt.source)).completed == 1
    assert (await knowledge.of(runtime, "globex", confined=True).progress()).total == 0

    await library.delete_source(receipt.source)
    await scene.drain()
    assert not (await scene.left("acme")).keys() & {"source", "document", "chunk", "object"}
