"""An app, and what there is to see of it."""

import asyncpg
import pytest

from penstock import Penstock
from penstock.insights import Insights
from tests.fixtures.kept import database, kept
from tests.fixtures.worker import app

__all__ = ["app", "database", "kept"]


@pytest.fixture
async def insights(app: Penstock, connection: asyncpg.Connection) -> Insights:
    return Insights(app.store, connection)
