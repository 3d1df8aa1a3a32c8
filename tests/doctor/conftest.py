"""What the tests of the doctor use beside the database."""

from collections.abc import AsyncIterator

import pytest

from tests.doctor.examined import Examined
from tests.fixtures.database import Database, connected, roles
from tests.fixtures.later import later
from tests.fixtures.until import until
from tests.fixtures.worker import app

__all__ = ["app", "later", "roles"]

FORGONE = ("fsync", "full_page_writes")


@pytest.fixture
def examined(database: Database) -> Examined:
    """The doctor at this test's database."""
    return Examined(database.url)


@pytest.fixture
async def durable(database: Database) -> AsyncIterator[None]:
    """The test server as a server should be; the tests forgo durability otherwise."""
    await _set_durability(database, "on")
    yield
    await _set_durability(database, "off")


async def _set_durability(database: Database, value: str) -> None:
    async with connected(database.admin_url) as admin:
        for setting in FORGONE:
            await admin.execute(f"ALTER SYSTEM SET {setting} = {value}")
        await admin.execute("SELECT pg_reload_conf()")

        async def is_set() -> bool:
            return all([await admin.fetchval(f"SHOW {each}") == value for each in FORGONE])

        await until(is_set, what=f"{' and '.join(FORGONE)} to be {value}")
