"""What callers hear when Postgres refuses: an error of ours that says where, and what to do."""

import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import asyncpg
import psycopg
import pytest

from penstock import (
    DatabaseBusy,
    DatabaseDenied,
    DatabaseError,
    DatabaseExhausted,
    DatabaseLost,
    DatabaseReadOnly,
    Liveness,
    NotAllowed,
    Penstock,
    PenstockError,
    SchemaMissing,
)
from penstock.connect import scope
from tests.fixtures.address import Address, with_address, with_database, with_role
from tests.fixtures.database import Database, connected
from tests.fixtures.worker import timed

SECRET = "sesame"

# Classes of SQLSTATE, each with some of its members.
REFUSALS: dict[str, type[PenstockError]] = {
    "08006": DatabaseLost,
    "57P01": DatabaseLost,
    "57P03": DatabaseLost,
    "22003": DatabaseError,
    "23505": DatabaseError,
    "23514": DatabaseError,
    "25006": DatabaseReadOnly,
    "40001": DatabaseBusy,
    "40P01": DatabaseBusy,
    "42501": NotAllowed,
    "42P01": SchemaMissing,
    "53100": DatabaseExhausted,
    "53200": DatabaseExhausted,
    "53300": DatabaseExhausted,
    "53400": DatabaseExhausted,
    "54000": DatabaseError,
    "55P03": DatabaseBusy,
    "57014": DatabaseBusy,
    "58030": DatabaseError,
    "P0001": DatabaseError,
    "XX000": DatabaseError,
}
REFUSE = """
CREATE FUNCTION penstock.refuse_v1() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE EXCEPTION 'no such luck' USING ERRCODE = '{state}';
END
$$;
"""
REFUSING_VIEW = """
ALTER {kind} penstock.{name} RENAME TO {name}_before;
CREATE VIEW penstock.{name} AS SELECT * FROM penstock.{name}_before WHERE penstock.refuse_v1();
"""
REFUSING_TRIGGER = """
CREATE FUNCTION penstock.refuse_row_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM penstock.refuse_v1();
    RETURN NEW;
END
$$;
CREATE TRIGGER refuse BEFORE INSERT ON penstock.job
    FOR EACH ROW EXECUTE FUNCTION penstock.refuse_row_v1();
"""
REFUSING_RULES = """
ALTER FUNCTION penstock.read_rules_v1 RENAME TO rules_before;
CREATE FUNCTION penstock.read_rules_v1(text[], timestamptz DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql AS $$ BEGIN PERFORM penstock.refuse_v1(); RETURN NULL; END $$;
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "RETRY_DELAYS_S", (0.01,))


def app_of(database: Database, settings: str = "") -> Penstock:
    """An app that gives up soon, with a password in its address."""
    url = with_role(database.url, _role(database.url), SECRET) + settings
    app = Penstock(url, call_timeout=30.0, pool_size=2)

    @app.task(name="greet")
    async def greet() -> None: ...

    return app


def _role(url: str) -> str:
    return url.partition("://")[2].partition("@")[0].partition(":")[0]


async def enqueue(app: Penstock) -> object:
    return await app.enqueue(app.tasks.get("greet"))


async def start(app: Penstock) -> object:
    worker = app.worker(liveness=Liveness(start_wait=30))
    # It does not wait for room if the next pause is longer than it may wait.
    async with timed(worker, connection_retry=60.0):
        return None


# What is asked, and what refuses it.
CALLS: dict[str, tuple[Callable[[Penstock], Awaitable[object]], str]] = {
    "open": (lambda app: app.open(), REFUSING_VIEW.format(kind="TABLE", name="migration")),
    "enqueue": (enqueue, REFUSING_TRIGGER),
    "get": (lambda app: app.get("1"), REFUSING_VIEW.format(kind="TABLE", name="job")),
    "wait": (
        lambda app: app.wait("1", timeout=60),
        REFUSING_VIEW.format(kind="TABLE", name="job"),
    ),
    "start of a worker": (start, REFUSING_RULES),
}


def expect_told(error: BaseException, database: Database) -> None:
    """It is one of ours and names the place, what happened and what to do; no password."""
    assert isinstance(error, PenstockError)
    told = str(error)
    assert SECRET not in told
    assert error.__cause__ is not None
    assert str(error.__cause__)
    assert database.name in told
    assert "local socket" in told or "127.0.0.1" in told
    assert told.count(". ") >= 1
    assert told[-1] in ".?;"


@pytest.mark.parametrize("call", CALLS)
async def test_every_refusal_is_an_error_of_ours(database: Database, call: str) -> None:
    ask, refusing = CALLS[call]
    found: dict[str, type[BaseException]] = {}
    async with AsyncExitStack() as stack:
        app = app_of(database)
        if call != "open":
            await stack.enter_async_context(app)
        connection = await stack.enter_async_context(connected(database.direct_url))
        await connection.execute(REFUSE.format(state="P0001") + refusing)
        for state in REFUSALS:
            await connection.execute(
                REFUSE.format(state=state).replace("CREATE", "CREATE OR REPLACE")
            )
            with pytest.raises(PenstockError) as refused:
                await ask(app)
            found[state] = type(refused.value)
            expect_told(refused.value, database)
            if isinstance(refused.value, DatabaseError):
                assert refused.value.sqlstate == state
                assert "no such luck" in str(refused.value)
            if call == "open":
                await app.close()
    assert found == REFUSALS


# What a trigger of the user's own does, and what is told of it.
THEIRS: dict[str, tuple[str, type[PenstockError], str]] = {
    "a missing table": ("INSERT INTO shop_audit VALUES (NEW.id)", DatabaseError, "shop_audit"),
    "a missing function": ("PERFORM shop_audit(NEW.id)", DatabaseError, "shop_audit"),
    "a missing schema": ("CREATE TABLE shop.audit ()", DatabaseError, '"shop"'),
    "a missing right": ("INSERT INTO shop_closed VALUES (NEW.id)", NotAllowed, "grant the right"),
}
THEIR_TRIGGER = """
CREATE TABLE public.shop_closed (id bigint);
DO $$ BEGIN EXECUTE format('REVOKE ALL ON public.shop_closed FROM %I', current_user); END $$;
CREATE FUNCTION public.shop_note() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    {what};
    RETURN NEW;
END
$$;
CREATE TRIGGER note BEFORE INSERT ON penstock.job
    FOR EACH ROW EXECUTE FUNCTION public.shop_note();
"""


@pytest.mark.parametrize("what", THEIRS)
@pytest.mark.parametrize("search_path", ["public", "penstock", "pg_catalog"])
async def test_error_of_a_users_trigger_does_not_blame_our_schema(
    database: Database, what: str, search_path: str
) -> None:
    does, kind, told = THEIRS[what]
    async with connected(database.direct_url) as connection:
        await connection.execute(THEIR_TRIGGER.format(what=does))
    async with app_of(database, f"&search_path={search_path}") as app:
        with pytest.raises(PenstockError) as refused:
            await enqueue(app)
    assert type(refused.value) is kind
    expect_told(refused.value, database)
    assert told in str(refused.value)
    assert "shop_note" in str(refused.value)
    assert "penstock migrate" not in str(refused.value)
    assert "owner of the schema" not in str(refused.value)


@pytest.mark.parametrize("kind", ["asyncpg", "psycopg"])
async def test_users_trigger_raises_the_drivers_error_in_a_transaction(
    database: Database, kind: str
) -> None:
    async with connected(database.direct_url) as connection:
        does = "INSERT INTO shop_audit VALUES (NEW.id)"
        await connection.execute(THEIR_TRIGGER.format(what=does))
    async with app_of(database) as app, AsyncExitStack() as stack:
        if kind == "asyncpg":
            on = await stack.enter_async_context(connected(database.url))
            await stack.enter_async_context(on.transaction())
        else:
            on = await psycopg.AsyncConnection.connect(database.url)
            await stack.enter_async_context(on)
            stack.push_async_callback(on.rollback)
        with pytest.raises((asyncpg.UndefinedTableError, psycopg.errors.UndefinedTable)):
            await app.inside(on).enqueue(app.tasks.get("greet"))


PARTITIONS = """
SELECT c.oid::regclass::text FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'penstock.job_history'::regclass
"""
KEPT_AWAY = {
    "nothing": ("", ""),
    "a column": ("ALTER TABLE {} DROP COLUMN result;", "ATTACH PARTITION penstock.job_history_"),
    "a right": (
        "REVOKE EXECUTE ON FUNCTION penstock.ensure_partitions_v1 FROM PUBLIC, CURRENT_USER;",
        "Workers create it",
    ),
}


@pytest.mark.parametrize("what", KEPT_AWAY)
async def test_change_attaches_a_missing_partition_or_says_what_to_do(
    database: Database, what: str
) -> None:
    keeps, told = KEPT_AWAY[what]
    async with app_of(database) as app, connected(database.direct_url) as connection:
        job = await app.enqueue(app.tasks.get("greet"))
        for row in await connection.fetch(PARTITIONS):
            table = row[0] if "." in row[0] else f"penstock.{row[0]}"
            await connection.execute(
                f"ALTER TABLE penstock.job_history DETACH PARTITION {table}; {keeps.format(table)}"
            )
        if not told:
            assert await app.cancel(job)
            assert (await app.get(job)).state == "cancelled"
            return
        with pytest.raises(DatabaseError) as refused:
            await app.cancel(job)
    expect_told(refused.value, database)
    assert told in str(refused.value)
    assert "constraints" not in str(refused.value)


async def test_a_server_that_refuses_connections_is_named(database: Database) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        app = Penstock(with_address(database.url, Address(*taken.getsockname())))
        with pytest.raises(DatabaseLost, match=f"{database.name} on 127") as refused:
            async with app:
                pass
        with pytest.raises(DatabaseLost, match="Nothing was sent") as migrating:
            await app.migrate()
    assert not refused.value.is_sent
    assert not migrating.value.is_sent


async def test_a_database_that_is_not_there_is_told_as_such(database: Database) -> None:
    with pytest.raises(DatabaseDenied, match=r"nowhere on .* does not exist"):
        await Penstock(with_database(database.url, "nowhere")).open()


async def test_a_role_that_is_not_there_is_told_without_its_password(database: Database) -> None:
    with pytest.raises(DatabaseDenied, match="refused the login of the role") as refused:
        await Penstock(with_role(database.url, "nobody", SECRET)).open()
    assert SECRET not in str(refused.value)


async def test_a_server_set_to_read_only_is_told_and_can_be_looked_at(database: Database) -> None:
    async with connected(database.admin_url) as admin:
        await admin.execute(
            f"ALTER DATABASE {database.name} SET default_transaction_read_only = on"
        )
    async with app_of(database) as app:
        with pytest.raises(DatabaseReadOnly, match="takes no writes"):
            await enqueue(app)
        assert await app.find("1") is None


async def test_a_statement_that_times_out_is_told(database: Database) -> None:
    async with connected(database.direct_url) as blocker, connected(database.admin_url) as admin:
        await admin.execute(f"ALTER DATABASE {database.name} SET statement_timeout = '50ms'")
        app, is_open = app_of(database), False
        while not is_open:
            with suppress(DatabaseBusy):  # On a busy machine any statement may take too long.
                await app.open()
                is_open = True
        async with app, blocker.transaction():
            await blocker.execute("LOCK TABLE penstock.job")
            with pytest.raises(DatabaseBusy, match="statement_timeout"):
                await enqueue(app)


async def test_every_call_reports_a_database_without_free_connections(database: Database) -> None:
    async with connected(database.admin_url) as admin:
        app = app_of(database)
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 0")
        for call, _ in CALLS.values():
            if call is start:
                continue  # It waits: see tests/worker/test_room.py.
            with pytest.raises(DatabaseExhausted, match="CONNECTION LIMIT"):
                await call(app)
        await admin.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")


async def test_drivers_errors_stay_inside_the_callers_transaction(database: Database) -> None:
    async with app_of(database) as app, connected(database.direct_url) as connection:
        await connection.execute(REFUSE.format(state="23514") + REFUSING_TRIGGER)
        with pytest.raises(asyncpg.CheckViolationError):
            async with connection.transaction():
                await app.inside(connection).enqueue(app.tasks.get("greet"))
