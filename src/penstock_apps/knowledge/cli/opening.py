"""Open the knowledge of a tenant for a command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock import Penstock
from penstock.cli.database import expect_server, plain_errors
from penstock.cli.options import Where
from penstock_apps.knowledge import Knowledge
from penstock_apps.knowledge.library import Library


@asynccontextmanager
async def opened(where: Where, tenant: str) -> AsyncIterator[tuple[Knowledge, Library]]:
    """The knowledge that the options name, and a tenant's part of it.

    An embedded server is started, but none is made.
    """
    database = where.database()
    if database.url is None:
        expect_server(database)
    app = Penstock()
    where.lead(app)
    knowledge = Knowledge(app)
    with plain_errors(app.database):
        async with app, knowledge.opened() as runtime:
            yield knowledge, knowledge.of(runtime, tenant)
