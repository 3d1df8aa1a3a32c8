"""Each test gets a database with the accounts' table, and a mailer that sends nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from accounts import TABLES, Mailer, app
from outbox import Outbox, outbox


@app.resource(Mailer)
@asynccontextmanager
async def mailer() -> AsyncIterator[Outbox]:
    yield outbox


@pytest.fixture(autouse=True)
def empty_outbox() -> None:
    outbox.clear()


@pytest.fixture(scope="session")
def penstock_template(penstock_template: str) -> str:
    asyncio.run(execute(penstock_template, TABLES))
    return penstock_template


async def execute(url: str, command: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(command)
    await connection.close()
