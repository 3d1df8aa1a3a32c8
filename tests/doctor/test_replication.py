"""Prepared transactions, replication slots and standbys that hold back vacuum."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from penstock.doctor import Finding
from penstock.migrate import migrate
from tests.doctor.examined import ERROR, OK, WARNING, Examined, paste
from tests.fixtures.address import with_hosts
from tests.fixtures.database import connected
from tests.fixtures.replicated import SLOT, Replicated
from tests.fixtures.until import until

READ_WRITE = {"target_session_attrs": "read-write"}
OLD = {"snapshot_warning": 0, "snapshot_warning_transactions": 0}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicated]:
    folder: Path = tmp_path_factory.mktemp("servers")
    replicated = Replicated(folder)
    with replicated.running():
        yield replicated


@pytest.fixture
def examined(servers: Replicated) -> Examined:
    """The doctor at the primary, as a role that sees everything."""
    return Examined(servers.primary.admin_url())


@pytest.fixture
async def admin(servers: Replicated) -> AsyncIterator[asyncpg.Connection]:
    async with connected(servers.primary.admin_url()) as connection:
        yield connection


async def test_a_standby_is_an_error_since_it_takes_no_writes(servers: Replicated) -> None:
    [finding] = await Examined(servers.standby.admin_url())("connection")
    assert finding.verdict is ERROR
    assert "is a standby" in finding.seen
    assert finding.paste == ("SELECT pg_promote();",)


async def test_read_write_url_skips_a_standby(servers: Replicated) -> None:
    standby, primary = servers.standby.admin_url(), servers.primary.admin_url()
    [finding] = await Examined(with_hosts(standby, primary, **READ_WRITE))("connection")
    assert finding.verdict is OK
    [finding] = await Examined(with_hosts(standby, **READ_WRITE))("connection")
    assert finding.verdict is ERROR
    assert "is not read-write" in finding.seen


async def test_a_standby_can_be_examined_otherwise(servers: Replicated) -> None:
    await migrate(servers.primary.admin_url())

    async def arrived() -> bool:
        [finding] = await Examined(servers.standby.admin_url())("schema")
        return finding.verdict is OK

    await until(arrived, what="the tables to reach the standby")
    [finding] = await Examined(servers.standby.admin_url())("stuck-jobs")
    assert finding.verdict is OK


async def test_a_prepared_transaction_is_named_and_can_be_rolled_back(
    admin: asyncpg.Connection, examined: Examined
) -> None:
    await admin.execute("BEGIN; CREATE TABLE forgotten (); PREPARE TRANSACTION 'ada''s order'")
    finding = await held_by(examined, "prepared transaction")
    assert finding.verdict is WARNING
    assert "ada's order" in finding.seen
    await paste(admin, finding)
    await nothing_held_by(examined, "prepared transaction")


async def test_a_slot_is_named_whose_standby_has_a_long_reader(
    servers: Replicated, examined: Examined
) -> None:
    async with connected(servers.standby.admin_url()) as reader:
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        finding = await held_by(examined, f"replication slot {SLOT} (active)")
        assert finding.paste == (f"SELECT pg_drop_replication_slot('{SLOT}');",)


async def test_a_standby_without_a_slot_is_named_whose_reader_is_long(
    servers: Replicated, examined: Examined, admin: asyncpg.Connection
) -> None:
    """The last test of the file: the slot stays as it was left, and then goes."""
    async with connected(servers.standby.admin_url()) as reader:
        await reader.execute("ALTER SYSTEM SET primary_slot_name = ''")
        await reader.execute("SELECT pg_reload_conf()")
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        finding = await held_by(examined, "The standby ")
        assert "hot_standby_feedback" in finding.remedy
        slot = await held_by(examined, f"replication slot {SLOT} (inactive)")
    await paste(admin, slot)
    await nothing_held_by(examined, "replication slot")


async def held_by(examined: Examined, holder: str) -> Finding:
    """Wait until a holder is found: a standby tells every second."""

    async def found() -> Finding | None:
        findings = await examined("snapshots", **OLD)
        return next((finding for finding in findings if holder in finding.seen), None)

    return await until(found, 60, what=f"a finding about the {holder}")


async def nothing_held_by(examined: Examined, holder: str) -> None:
    async def gone() -> bool:
        return not any(holder in finding.seen for finding in await examined("snapshots", **OLD))

    await until(gone, what=f"the {holder} to be gone")
