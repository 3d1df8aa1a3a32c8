"""What the tests of the worker use beside the database."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fixtures.database import Database, connected, copied, create, drop
from tests.fixtures.server import PostgresServer
from tests.fixtures.worker import app

__all__ = ["app"]

A_DAY = 86_400.0


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def led_template(postgres: PostgresServer, template: Database) -> AsyncIterator[Database]:
    """As the template, where another worker leads and does not mean to leave."""
    led = await create(postgres, source=template.name)
    async with connected(led.direct_url) as connection:
        leader = await connection.fetchval("SELECT penstock.open_lease_v1('leader', $1)", A_DAY)
        for role in ("maintenance", "orchestration"):
            await connection.execute("SELECT penstock.elect_v1($1, $2, $3)", role, leader, A_DAY)
    yield led
    await drop(postgres, led)


@pytest.fixture
def led_elsewhere() -> None:
    """Another worker leads: those of the test do none of the upkeep, which they are not about."""


@pytest.fixture
async def database(
    postgres: PostgresServer,
    template: Database,
    led_template: Database,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Database]:
    """A migrated database of this test's own; see `led_elsewhere`."""
    source = led_template if "led_elsewhere" in request.fixturenames else template
    async with copied(postgres, source, request.node) as database:
        yield database
