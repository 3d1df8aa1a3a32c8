"""What the tests of the doctor use beside the database."""

from collections.abc import AsyncIterator

import pytest

from tests.doctor.examined import Examined
from tests.fixtures.database import Database, connected
from tests.fixtures.until import until
from tests.fixtures.worker import app

__all__ = ["app"]


@pytest.fixture
def examined(database: Database) -> Examined:
    """The doctor at this test's database."""
    return Examined(database.url)


@pytest.fixture
async def durable(database: Database) -> AsyncIterator[None]:
    """The test server as a server should be; the tests forgo fsync otherwise."""
    await _set_fsync(database, "on")
    yield
    await _set_fsync(database, "off")


async def _set_fsync(database: Database, value: str) -> None:
    async with connected(database.admin_url) as admin:
        await admin.execute(f"ALTER SYSTEM SET fsync = {value}")
        await admin.execute("SELECT pg_reload_conf()")

        async def is_set() -> bool:
            shown: str = await admin.fetchval("SHOW fsync")
            return shown == value

        await until(is_set, what=f"fsync to be {value}")
