"""An enqueue is durable when it returns, whatever the server's default."""

import asyncpg
import pytest

from penstock import Penstock, Workflow
from tests.fixtures.database import Database

# A trigger sees the setting that the commit will be made with.
WATCH = """
CREATE TABLE public.commits (what text, setting text);
CREATE FUNCTION public.note_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.commits VALUES (TG_ARGV[0], current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER watch AFTER INSERT ON penstock.job DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION public.note_commit('enqueue');
"""


@pytest.fixture
async def careless(database: Database, connection: asyncpg.Connection):
    """An app on a database that by default does not wait for the disk."""
    await connection.execute(f"ALTER DATABASE {database.name} SET synchronous_commit = off")
    await connection.execute(WATCH)
    async with Penstock(database.url) as app:
        yield app


async def test_an_enqueue_is_durable_where_the_default_is_not(
    careless: Penstock, connection: asyncpg.Connection
) -> None:
    @careless.task
    async def note() -> None: ...

    await careless.enqueue(note)
    assert await connection.fetchval("SELECT setting FROM public.commits") == "on"


async def test_in_the_callers_transaction_the_callers_setting_rules(
    careless: Penstock, connection: asyncpg.Connection
) -> None:
    @careless.task
    async def note() -> None: ...

    async with connection.transaction():
        await connection.execute("SET LOCAL synchronous_commit = local")
        await careless.inside(connection).enqueue(note)
    assert await connection.fetchval("SELECT setting FROM public.commits") == "local"


async def test_extended_workflow_is_durable_outside_own_transactions(
    careless: Penstock, connection: asyncpg.Connection
) -> None:
    @careless.task
    async def note() -> None: ...

    def flow() -> Workflow:
        steps = Workflow()
        steps.add(note.prepare())
        return steps

    settings = "SELECT array_agg(setting) FROM public.commits"
    started = await careless.start_workflow(flow())
    await connection.execute("TRUNCATE public.commits")
    await careless.extend_workflow(started, flow())
    assert await connection.fetchval(settings) == ["on"]
    async with connection.transaction():
        await connection.execute("SET LOCAL synchronous_commit = local")
        await careless.inside(connection, notify=False).extend_workflow(started, flow())
    assert await connection.fetchval(settings) == ["on", "local"]
