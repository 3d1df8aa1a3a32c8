"""The runtime of jobs and routes: the tables, the storage, the models and a scratch folder."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeAlias

from penstock import Context, Database, NotRetryable, Penstock
from penstock.storage.location import StorageOptions
from penstock.storage.storage import Storage
from penstock_apps.knowledge.embed import Embedder, Embedding, embedder_of
from penstock_apps.knowledge.search import Searcher
from penstock_apps.knowledge.settings import STORAGE_VARIABLE, Settings
from penstock_apps.knowledge.store.bases import Bases
from penstock_apps.knowledge.store.chunks import Publishing
from penstock_apps.knowledge.store.counts import Counters
from penstock_apps.knowledge.store.deletion import Removals, Sweeps
from penstock_apps.knowledge.store.documents import Documents
from penstock_apps.knowledge.store.drafts import Drafts
from penstock_apps.knowledge.store.editions import Editions
from penstock_apps.knowledge.store.objects import Objects
from penstock_apps.knowledge.store.sources import Sources
from penstock_apps.knowledge.store.tables import TablePool
from penstock_apps.knowledge.store.tenants import Tenants
from penstock_apps.knowledge.store.vector_indexes import Indexes

SCRATCH_PREFIX = "penstock-knowledge-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder for this process, after removing the folders of dead processes.

    A lock marks a folder as in use. The system releases the lock when the process ends in any way.
    """
    parent = Path(tempfile.gettempdir())
    remove_dead_folders(parent)
    folder, lock = _make_locked_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_dead_folders(parent: Path) -> int:
    """Remove the folders whose processes are gone, and return how many."""
    removed = 0
    for folder in parent.glob(f"{SCRATCH_PREFIX}*"):
        if (lock := _lock_folder(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            removed += 1
    return removed


def _make_locked_folder(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=parent))
        lock = _lock_folder(folder)
        if lock is not None and folder.exists():
            return folder, lock
        # Another process removed the folder before it was locked: try again.
        if lock is not None:
            os.close(lock)


def _lock_folder(folder: Path) -> int | None:
    """Lock a folder and return its descriptor; None if it is gone, in use or another user's."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None  # The folder is gone, or belongs to another user.
    try:
        if os.fstat(opened).st_uid == os.getuid():
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return opened
    except OSError:
        pass
    os.close(opened)
    return None


TextKey: TypeAlias = "tuple[str, str, bytes]"  # Tenant, embedder, hash.


class InFlight:
    """The texts that calls of this process are embedding, so that no other call requests them."""

    def __init__(self) -> None:
        self._calls: dict[TextKey, asyncio.Event] = {}

    @asynccontextmanager
    async def claim(
        self, keys: Iterable[TextKey]
    ) -> AsyncIterator[tuple[set[TextKey], dict[TextKey, asyncio.Event]]]:
        """Claim the texts that no other call is embedding, until the end of the block.

        Yield the claimed texts, and for each other text the event that is set when its call has
        ended.
        """
        keys = list(keys)
        others = {key: self._calls[key] for key in keys if key in self._calls}
        own = {key for key in keys if key not in others}
        finished = asyncio.Event()
        self._calls.update(dict.fromkeys(own, finished))
        try:
            yield own, others
        finally:
            for key in own:
                del self._calls[key]
            finished.set()


MAX_ID = 2**63 - 1


def tenant_of_job(ctx: Context) -> str:
    """Return the tenant of a job; raise NotRetryable if it has none."""
    if not ctx.job.tenant:
        raise NotRetryable(f"Job {ctx.job.id} of {ctx.job.task} has no tenant, but needs one.")
    return ctx.job.tenant


def batch_of_callback(ctx: Context) -> str:
    """Return the batch that enqueued this job as its callback; raise NotRetryable if none did."""
    batch = ctx.job.meta.get("batch")
    if not isinstance(batch, str):
        raise NotRetryable(
            f"Job {ctx.job.id} of {ctx.job.task} is not the callback of a batch. Do not enqueue "
            "this task yourself: only a batch may enqueue it, when it ends."
        )
    return batch


def expect_id(ctx: Context, what: str, id: int | None) -> int:
    """Return an id if a row can have it; otherwise raise NotRetryable."""
    if id is None or not 0 < id <= MAX_ID:
        raise NotRetryable(
            f"Job {ctx.job.id} of {ctx.job.task} names the {what} {id}, but no {what} can have "
            "that id."
        )
    return id


# A child process ingests one document at a time; a server answers many requests.
JOB_CONNECTIONS = 2
SERVER_CONNECTIONS = 8


class KnowledgeRuntime:
    """The tables, storage and models of a process that ingests, searches or maintains knowledge."""

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
        self.counters = Counters(tables)
        self.tenants = Tenants(tables)
        self.searching = Searcher(tables)
        self.in_flight = InFlight()
        self._embedders: dict[Embedding, Embedder] = {}

    def embedder(self, settings: Embedding) -> Embedder:
        """Return the model of these settings, which is loaded once."""
        if settings not in self._embedders:
            self._embedders[settings] = embedder_of(settings, os.environ)
        return self._embedders[settings]

    async def close(self) -> None:
        for each in self._embedders.values():
            await each.close()


@asynccontextmanager
async def open_worker_runtime(database: Database) -> AsyncIterator[KnowledgeRuntime]:
    """Open a runtime for a worker, with an app of its own on the worker's database."""
    app = Penstock(database.url, schema=database.schema, pool_size=JOB_CONNECTIONS)
    async with open_runtime(app, database, JOB_CONNECTIONS) as opened:
        try:
            yield opened
        finally:
            await app.close()


@asynccontextmanager
async def open_runtime(
    app: Penstock, database: Database, connections: int = SERVER_CONNECTIONS
) -> AsyncIterator[KnowledgeRuntime]:
    """Open a runtime that uses an open app."""
    settings = Settings.of()
    storage = Storage.of(settings.storage_at(database), StorageOptions.of(STORAGE_VARIABLE))
    async with AsyncExitStack() as stack:
        folder = await asyncio.to_thread(stack.enter_context, scratch_folder())
        tables = await stack.enter_async_context(TablePool.opened(database, connections))
        runtime = KnowledgeRuntime(app, tables, storage, settings, folder)
        stack.push_async_callback(runtime.close)
        yield runtime
