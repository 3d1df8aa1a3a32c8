"""Databases whose whole schema is compared: with knowledge, and under row level security."""

import asyncpg
import pytest

from penstock.sql import rls
from tests.fixtures.database import connected
from tests.fixtures.server import PostgresServer
from tests.knowledge.conftest import knowledge_database as knowledge_database
from tests.knowledge.conftest import knowledge_template as knowledge_template


@pytest.fixture
async def roles(postgres: PostgresServer) -> None:
    """The roles that row level security is for, which stay."""
    async with connected(postgres.direct_url) as owner, connected(postgres.admin_url) as admin:
        try:
            await owner.execute(rls("roles", "penstock"))
        except asyncpg.PostgresError:  # not every owner may
            await admin.execute(rls("roles", "penstock"))
