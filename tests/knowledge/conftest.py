"""An app with knowledge, on a database of the test's own: tables, a folder for files, a library.

Where the server has no pgvector, the tests that need these are skipped.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from penstock import Database as Address
from penstock import Penstock
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from tests.fixtures.database import END_SESSIONS, Database, connected, copied, create, drop
from tests.fixtures.server import PostgresServer
from tests.knowledge.scene import Scene

TENANT = "acme"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def knowledge_template(
    postgres: PostgresServer, template: Database
) -> AsyncIterator[Database]:
    """The database with the tables of knowledge that the others are copied from."""
    made = await create(postgres, source=template.name)
    try:
        async with connected(made.admin_url) as admin:
            try:
                await admin.execute("CREATE EXTENSION vector")
            except asyncpg.PostgresError as error:
                pytest.skip(f"Knowledge needs pgvector: {error}")
        await Knowledge(Penstock()).migrate(Address.of(made.direct_url))
        postgres.admin.fetch(END_SESSIONS, database=made.name)
        yield made
    finally:
        await drop(postgres, made)


@pytest.fixture
async def knowledge_database(
    postgres: PostgresServer, knowledge_template: Database, request: pytest.FixtureRequest
) -> AsyncIterator[Database]:
    """A database of this test's own with the tables of knowledge."""
    async with copied(postgres, knowledge_template, request.node) as database:
        yield database


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that files are stored in, here and in the worker's child processes."""
    folder = tmp_path / "objects"
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_STORAGE", str(folder))
    return folder


@pytest.fixture
async def app(knowledge_database: Database, objects: Path) -> AsyncIterator[Penstock]:
    """An open app with knowledge; `app.applications[0]` is the Knowledge."""
    app = Penstock(knowledge_database.url)
    Knowledge(app)
    async with app:
        yield app


@pytest.fixture
def knowledge(app: Penstock) -> Knowledge:
    [found] = app.applications
    assert isinstance(found, Knowledge)
    return found


@pytest.fixture
async def runtime(knowledge: Knowledge) -> AsyncIterator[KnowledgeRuntime]:
    """An open workshop."""
    async with knowledge.opened() as runtime:
        yield runtime


@pytest.fixture
def library(knowledge: Knowledge, runtime: KnowledgeRuntime) -> Library:
    """The knowledge of the tenant acme."""
    return knowledge.of(runtime, TENANT)


@pytest.fixture
def scene(knowledge: Knowledge, runtime: KnowledgeRuntime, tmp_path: Path) -> Scene:
    """Short ways to files, sources, workers and rows."""
    return Scene(knowledge, runtime, tmp_path / "files")
