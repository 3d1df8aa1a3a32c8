"""What knowledge is made with: the tables, the stored files, the models."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from penstock import Database, Penstock
from penstock.storage.location import Options
from penstock.storage.storage import Storage
from penstock_apps.knowledge.embed import Embedder, Embedding, embedder_of
from penstock_apps.knowledge.pipeline.in_flight import InFlight
from penstock_apps.knowledge.scratch import scratch
from penstock_apps.knowledge.search import Searching
from penstock_apps.knowledge.settings import STORAGE, Settings
from penstock_apps.knowledge.store.bases import Bases
from penstock_apps.knowledge.store.chunks import Publishing
from penstock_apps.knowledge.store.counts import Tallies
from penstock_apps.knowledge.store.deletion import Removals, Sweeps
from penstock_apps.knowledge.store.documents import Documents
from penstock_apps.knowledge.store.drafts import Drafts
from penstock_apps.knowledge.store.editions import Editions
from penstock_apps.knowledge.store.objects import Objects
from penstock_apps.knowledge.store.sources import Sources
from penstock_apps.knowledge.store.tables import TablePool
from penstock_apps.knowledge.store.tenants import Tenants
from penstock_apps.knowledge.store.vector_indexes import Indexes

# A child process brings in one document at a time, and a server answers many.
FOR_A_JOB = 2
FOR_ALL = 8


class KnowledgeRuntime:
    """Opened once in each process that brings documents in, answers questions or tidies up."""

    def __init__(
        self, app: Penstock, tables: TablePool, storage: Storage, settings: Settings, folder: Path
    ) -> None:
        self.app = app
        self.tables = tables
        self.storage = storage
        self.settings = settings
        self.folder = folder
        self.bases = Bases(tables)
        self.sources = Sources(tables)
        self.documents = Documents(tables)
        self.drafts = Drafts(tables)
        self.editions = Editions(tables)
        self.indexes = Indexes(tables)
        self.objects = Objects(tables)
        self.publishing = Publishing(tables)
        self.removals = Removals(tables)
        self.sweeps = Sweeps(tables)
        self.tallies = Tallies(tables)
        self.tenants = Tenants(tables)
        self.searching = Searching(tables)
        self.in_flight = InFlight()
        self._embedders: dict[Embedding, Embedder] = {}

    def embedder(self, settings: Embedding) -> Embedder:
        """The model of these settings, loaded once."""
        if settings not in self._embedders:
            self._embedders[settings] = embedder_of(settings, os.environ)
        return self._embedders[settings]

    async def close(self) -> None:
        for each in self._embedders.values():
            await each.close()


@asynccontextmanager
async def open_runtime(database: Database) -> AsyncIterator[KnowledgeRuntime]:
    """A runtime for a worker, on the database that it works on."""
    app = Penstock(database.url, schema=database.schema, pool_size=FOR_A_JOB)
    async with opened_runtime(app, database, FOR_A_JOB) as opened:
        try:
            yield opened
        finally:
            await app.close()


@asynccontextmanager
async def opened_runtime(
    app: Penstock, database: Database, connections: int = FOR_ALL
) -> AsyncIterator[KnowledgeRuntime]:
    """A runtime beside an app."""
    settings = Settings.of()
    storage = Storage.of(settings.storage_at(database), Options.of(STORAGE))
    async with AsyncExitStack() as stack:
        folder = await asyncio.to_thread(stack.enter_context, scratch())
        tables = await stack.enter_async_context(TablePool.opened(database, connections))
        runtime = KnowledgeRuntime(app, tables, storage, settings, folder)
        stack.push_async_callback(runtime.close)
        yield runtime
