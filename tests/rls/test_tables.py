"""No table lets one tenant across to another, not even when the app was given rights by a slip."""

from contextlib import suppress

import asyncpg
import pytest

from penstock.sql import quote
from tests.rls.conftest import APP_LOGIN, Ground
from tests.rls.seeds import SEEDS, values

# What a tenant sees of a table in which there is a row of its own and one of another's. Every
# table is here: a new one comes with a decision in rls/on.sql, and with a row in seeds.py.
OWN = {
    *("job", "job_history", "unique_claim", "progress", "step", "lease", "tenant_setting", "plan"),
    *(
        "batch",
        "batch_delta",
        "workflow",
        "dependency",
        "schedule",
        "schedule_fire",
        "audit",
        "retention",
    ),
    *("step_cache", "event", "event_wait"),
}
ALL = {"queue", "setting_version", "migration"}
NOTHING = {
    *("signal", "lane_setting", "limit_setting", "grant", "bucket", "leader"),
    *("api_key", "person", "login", "login_failure"),
}
TABLES = sorted(OWN | ALL | NOTHING)
# Of which a tenant may delete its own, if it has the right; the others can only be read.
DELETED = OWN - {"lease", "tenant_setting", "plan", "retention", "audit"}
# Names nobody's rows, and is read before there is a tenant.
OPEN_TO_ALL = {"migration"}

RELATIONS = """
SELECT c.relname::text AS name FROM pg_class AS c
 WHERE c.relnamespace = 'penstock'::regnamespace AND c.relkind::text = ANY ($1::text[])
   AND NOT c.relispartition ORDER BY c.relname
"""
RIGHTS = """
SELECT c.relname || ' ' || p.privilege AS held
  FROM pg_class AS c
 CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[])
    AS p (privilege)
 WHERE c.relnamespace = 'penstock'::regnamespace AND c.relkind IN ('r', 'p', 'v')
   AND (has_table_privilege($1, c.oid, p.privilege)
        OR p.privilege IN ('SELECT', 'INSERT', 'UPDATE')
           AND has_any_column_privilege($1, c.oid, p.privilege))
"""


# Each column with a value that fits it.
COLUMNS = """
SELECT quote_ident(a.attname) AS name,
       CASE WHEN t.typcategory = 'N' THEN '2' WHEN t.typcategory = 'D' THEN '''now()'''
            WHEN t.typcategory = 'S' THEN '''x''' ELSE 'NULL' END AS value
  FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
 WHERE a.attrelid = $1::text::regclass AND a.attnum > 0
"""


async def rows_of(connection: asyncpg.Connection, table: str) -> list[str]:
    """The rows of a table that one sees, as text, in the order they were put there."""
    rows = await connection.fetch(f"SELECT t::text FROM penstock.{quote(table)} AS t")
    return [row["t"] for row in rows]


async def all_rows(ground: Ground) -> dict[str, list[str]]:
    """Of every table; the last two are the row of tenant a and that of b."""
    async with ground.owner() as owner:
        return {table: await rows_of(owner, table) for table in TABLES}


async def try_to(connection: asyncpg.Connection, verb: str) -> None:
    """A statement that may fail; then it has changed nothing."""
    with suppress(asyncpg.PostgresError):
        async with connection.transaction():
            await connection.execute(verb)


async def test_there_is_a_decision_for_every_table(seeded: Ground) -> None:
    async with seeded.owner() as owner:
        tables = {row["name"] for row in await owner.fetch(RELATIONS, ["r", "p"])}
    assert tables == set(TABLES) == set(SEEDS)
    assert len(OWN) + len(ALL) + len(NOTHING) == len(tables)


async def test_a_tenant_sees_no_row_of_another(seeded: Ground) -> None:
    there = await all_rows(seeded)
    async with seeded.trying("a", slip=True) as connection:
        for table in TABLES:
            ours, seen = there[table][-2:-1], await rows_of(connection, table)
            if table in ALL:
                assert seen == there[table], table
            else:
                assert seen == (ours if table in OWN else []), table


async def test_a_tenant_changes_no_row_of_another(seeded: Ground) -> None:
    there = await all_rows(seeded)
    async with seeded.trying("a", slip=True) as connection:
        for table in TABLES:
            async with seeded.undone(connection):
                await try_to_change(connection, table)
                await connection.execute("RESET ROLE")
                left = await rows_of(connection, table)
                assert there[table][-1] in left, table
                assert len(there[table]) - len(left) == (table in DELETED), table


async def try_to_change(connection: asyncpg.Connection, table: str) -> None:
    name = f"penstock.{quote(table)}"
    for column in await connection.fetch(COLUMNS, name):
        # To one value and to itself: only the second one reads the row.
        for value in (column["name"], column["value"], "'b'"):
            await try_to(connection, f"UPDATE {name} SET {column['name']} = {value}")
    await try_to(connection, f"DELETE FROM {name}")


async def test_a_tenant_adds_no_row_of_another(seeded: Ground) -> None:
    async with seeded.trying("a", slip=True) as connection:
        for table in TABLES:
            await expect_closed(seeded, connection, SEEDS[table].format(**values("b", number=9)))


@pytest.mark.parametrize("tenant", [None, ""], ids=["none", "empty"])
async def test_without_a_tenant_a_table_is_closed(seeded: Ground, tenant: str | None) -> None:
    async with seeded.trying(tenant, slip=True) as connection:
        for table in sorted(set(TABLES) - OPEN_TO_ALL):
            assert await rows_of(connection, table) == [], table
            deleted = await connection.execute(f"DELETE FROM penstock.{quote(table)}")
            assert deleted == "DELETE 0", table
            await expect_closed(seeded, connection, SEEDS[table].format(**values("a", number=9)))


async def expect_closed(ground: Ground, connection: asyncpg.Connection, insert: str) -> None:
    async with ground.undone(connection):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await connection.execute(insert)


async def test_the_view_of_all_jobs_asks_with_the_rights_of_its_caller(seeded: Ground) -> None:
    async with seeded.owner() as owner:
        views = {row["name"] for row in await owner.fetch(RELATIONS, ["v"])}
        assert views == {"job_all"}
        assert await owner.fetchval("SELECT count(*) FROM penstock.job_all") == 4
    async with seeded.trying("a") as connection:
        found = await connection.fetch("SELECT id, tenant FROM penstock.job_all ORDER BY id")
        assert [tuple(row) for row in found] == [(1, "a"), (101, "a")]
    async with seeded.trying(None) as connection:
        assert await connection.fetch("SELECT id FROM penstock.job_all") == []


async def test_the_app_has_no_more_rights_than_its_calls_need(seeded: Ground) -> None:
    async with seeded.owner() as owner:
        held = {row["held"] for row in await owner.fetch(RIGHTS, APP_LOGIN)}
    everything = ("SELECT", "INSERT", "UPDATE", "DELETE")
    assert held == {
        *(
            f"{name} {each}"
            for name in ("job", "job_history", "unique_claim", "dependency")
            for each in everything
        ),
        *(f"{name} {each}" for name in ("batch", "workflow") for each in everything[:3]),
        "batch_delta SELECT",
        "batch_delta INSERT",
        *(f"{name} {each}" for name in ("progress", "step") for each in ("SELECT", "DELETE")),
        *("event SELECT", "event INSERT"),
        *("event_wait SELECT", "event_wait UPDATE", "event_wait DELETE"),
        "signal INSERT",
        *(
            f"{name} SELECT"
            for name in ("job_all", "lease", "queue", "setting_version", "limit_setting")
        ),
        *(f"{name} SELECT" for name in ("tenant_setting", "plan", "retention", "migration")),
    }


async def test_the_worker_has_a_right_to_no_table(seeded: Ground) -> None:
    async with seeded.owner() as owner:
        held = {row["held"] for row in await owner.fetch(RIGHTS, "penstock_worker")}
    assert held == {"migration SELECT"}


async def test_a_limit_shows_only_where_it_is_a_tasks(seeded: Ground) -> None:
    async with seeded.trying("a") as connection:
        assert await connection.fetch("SELECT key FROM penstock.limit_setting") == []
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("SELECT slots FROM penstock.limit_setting")


async def test_neither_role_sees_past_the_policies_by_what_it_is(seeded: Ground) -> None:
    async with seeded.owner() as owner:
        found = await owner.fetch(
            "SELECT rolname FROM pg_roles WHERE rolname LIKE 'penstock\\_%'"
            " AND (rolsuper OR rolbypassrls OR pg_has_role(oid, current_user, 'MEMBER'))"
        )
    assert found == []
