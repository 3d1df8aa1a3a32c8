"""A key that is bound to a tenant crosses to no other on any route: the database says so."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from penstock import Penstock
from penstock.errors import ConfigError, NotAllowed, RolesUnfit, TenantUnguarded
from penstock.migrate import migrate
from penstock.service import Service
from tests.fixtures.database import Database
from tests.service.access.calls import API, CALLS, MARK, make_things, routes, url_of
from tests.service.access.conftest import asking

# Every row that says anything of a tenant, in all tables.
ROWS = """
SELECT c.relname FROM pg_class AS c
 WHERE c.relnamespace = 'penstock'::regnamespace AND c.relkind IN ('r', 'p')
   AND NOT c.relispartition AND c.relname NOT IN ('audit', 'lease')
"""


@pytest.fixture
async def guarded(database: Database) -> AsyncIterator[Penstock]:
    """An app whose login may become any role, under row level security."""
    await migrate(database.direct_url, rls=True)
    async with Penstock(database.admin_url) as app:

        @app.task(name="work")
        async def work(text: str) -> None: ...

        @app.task(name="fail", max_attempts=1)
        async def fail(text: str) -> None:
            raise ValueError(text)

        yield app


async def rows_of(connection: asyncpg.Connection, tenant: str) -> set[str]:
    """What the database holds of a tenant."""
    tables = [row["relname"] for row in await connection.fetch(ROWS)]
    told = " UNION ALL ".join(
        f"SELECT '{table} ' || t::text AS told FROM penstock.\"{table}\" AS t" for table in tables
    )
    rows = await connection.fetch(
        f"SELECT told FROM ({told}) AS r WHERE told LIKE $1", f"%{tenant}%"
    )
    return {row["told"] for row in rows}


def test_there_is_a_call_for_every_route() -> None:
    assert routes() == set(CALLS)


async def test_a_key_of_a_tenant_crosses_on_no_route(
    guarded: Penstock, connection: asyncpg.Connection
) -> None:
    theirs = await make_things(guarded, "globex")
    theirs.names["key"] = (await guarded.create_key("theirs", scopes=["read"])).key.id
    theirs.names["person"] = "grace"
    await guarded.add_person("grace", role="viewer", password_hash="x")
    made = await guarded.create_key("acme", scopes=["read", "enqueue", "operate"], tenant="acme")
    before = await rows_of(connection, "globex")
    assert len(before) > 15
    answers = {}
    async with Service(guarded) as service, asking(service, made.secret) as client:
        for (verb, path), call in CALLS.items():
            url, body = url_of(path, call, theirs), theirs.fill(call.body)
            for query in (theirs.fill(call.query), theirs.fill(call.query) | {"tenant": "acme"}):
                async with asyncio.timeout(10):
                    answer = await client.request(verb, url, params=query, json=body)
                answers[verb, path] = answer.status_code
                assert MARK not in answer.text, (verb, path)
                assert answer.status_code < 500, (verb, path, answer.text)
            if verb != "GET":
                assert await rows_of(connection, "globex") == before, (verb, path)
    named = [
        (route, status)
        for route, status in answers.items()
        if {"$job", "$batch", "$workflow"} & set(CALLS[route].path.values())
    ]
    assert named
    assert [each for each in named if each[1] not in (403, 404)] == []


async def test_a_key_of_a_tenant_works_on_what_is_its_own(guarded: Penstock) -> None:
    made = await guarded.create_key("acme", scopes=["read", "enqueue", "operate"], tenant="acme")
    async with Service(guarded) as service, asking(service, made.secret) as client:
        body = {"task": "work", "args": {"text": "x"}, "options": {"delay": 3600}}
        job = (await client.post(f"{API}/jobs", json=body)).json()["id"]
        assert (await client.get(f"{API}/jobs/{job}")).json()["tenant"] == "acme"
        assert (await client.post(f"{API}/jobs/{job}/cancel")).json()["state"] == "cancelled"
        assert (await client.delete(f"{API}/jobs/{job}")).status_code == 200
        # What is about all tenants is the database's to refuse, even if a route forgets to.
        with pytest.raises(NotAllowed):
            await guarded.for_tenant("acme", confined=True).set_limit("x", slots=1)
    [erased, cancelled] = (await guarded.audit(actor="key:acme")).entries
    assert [(each.action, each.tenant) for each in (erased, cancelled)] == [
        ("delete", "acme"),
        ("cancel", "acme"),
    ]


async def test_a_key_of_a_tenant_that_names_another_is_refused(
    guarded: Penstock, connection: asyncpg.Connection
) -> None:
    made = await guarded.create_key("acme", scopes=["enqueue"], tenant="acme")
    job = {"task": "work", "args": {"text": "x"}, "options": {"tenant": "globex"}}
    event = {"name": "paid", "tenant": "globex"}
    async with Service(guarded) as service, asking(service, made.secret) as client:
        for path, body in (("/jobs", job), ("/bulk/jobs", {"jobs": [job]}), ("/events", event)):
            answer = await client.post(f"{API}{path}", json=body)
            assert answer.status_code == 403, path
            assert answer.json()["type"] == "urn:penstock:tenant-mismatch", path
        assert (await client.post(f"{API}/events", json={"name": "paid"})).status_code == 200
        own = await client.post(f"{API}/events", json={"name": "paid", "tenant": "acme"})
        assert own.status_code == 200
    assert await rows_of(connection, "globex") == set()


async def test_a_key_of_a_tenant_needs_what_keeps_tenants_apart(database: Database) -> None:
    async with Penstock(database.url) as app:
        with pytest.raises(TenantUnguarded, match="penstock migrate --rls"):
            await app.create_key("acme", scopes=["read"], tenant="acme")
        with pytest.raises(ConfigError, match="cannot have the scope admin"):
            await app.create_key("acme", scopes=["admin"], tenant="acme")


async def test_an_owner_that_made_the_roles_may_step_down_to_them(database: Database) -> None:
    # Roles are the whole server's: those of this schema are nobody else's.
    await migrate(database.direct_url, schema="guarded", rls=True)
    async with Penstock(database.url, schema="guarded") as app:
        made = await app.create_key("acme", scopes=["read"], tenant="acme")
        async with Service(app) as service, asking(service, made.secret) as client:
            assert (await client.get(f"{API}/jobs")).json()["jobs"] == []


async def test_one_that_may_not_is_told_what_lets_it(database: Database) -> None:
    await migrate(database.direct_url, schema="guarded", rls=True)
    admin = await asyncpg.connect(database.admin_url)
    async with Penstock(database.url, schema="guarded") as app:
        await (await app.pool()).execute("REVOKE guarded_app FROM penstock")
        try:
            with pytest.raises(RolesUnfit) as refused:
                await app.create_key("acme", scopes=["read"], tenant="acme")
            await admin.execute(refused.value.remedy)
            await app.create_key("acme", scopes=["read"], tenant="acme")
        finally:
            await admin.execute("REVOKE guarded_app FROM penstock")
            await admin.close()
