"""An app with the jobs of these tests."""

import signal
from collections.abc import AsyncIterator, Iterator

import pytest

from penstock import Penstock
from tests.fixtures.database import Database
from tests.isolation import jobs


@pytest.fixture
def hang_ups_end() -> Iterator[None]:
    """Under nohup they are ignored, and so they would be by all that is started here."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
async def app(database: Database) -> AsyncIterator[Penstock]:
    """An open app with the tasks of `jobs`."""
    async with Penstock(database.url, include=[jobs]) as app:
        yield app
