"""Open the queue that the options name, with clear errors if its database cannot be used."""

from __future__ import annotations

import getpass
import importlib
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg

from penstock.app.app import Penstock
from penstock.app.client import Client
from penstock.cli.errors import (
    AccessDenied,
    CommandError,
    DatabaseMissing,
    DatabaseRefused,
    DatabaseUnreachable,
    NoDatabase,
)
from penstock.cli.options import DatabaseOptions
from penstock.config import Database
from penstock.connect.connector import Connector, require_named_database
from penstock.connect.scope import TenantScope
from penstock.embedded import Server
from penstock.errors import (
    DatabaseDenied,
    DatabaseError,
    DatabaseLost,
    NotAllowed,
    PenstockError,
    SchemaMissing,
)
from penstock.insights import Insights, TenantInsights
from penstock.store import (
    Executor,
    Pool,
    RoleRights,
    Store,
    connect,
    errors,
    open_pool,
    read_role_rights,
)
from penstock.store.drivers.adapter import Adapter, Row
from penstock.store.errors import permission_error_for
from penstock.worker.room import retry_while_full


def current_user() -> str | None:
    """Return the name of the user who runs the command, or None if it is unknown.

    The audit log records this name.
    """
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


def find_app(target: str) -> Penstock:
    """Import a module, and return its Penstock app.

    `shop.jobs` means the only app of the module, and `shop.jobs:app` the app of that name. Raises
    `CommandError` if the module cannot be imported, has no such app, or has several.
    """
    module_name, _, attribute = target.partition(":")
    module = _import_module(module_name)
    if attribute:
        return _get_named_app(module, attribute)
    apps = {name: value for name, value in vars(module).items() if isinstance(value, Penstock)}
    names_by_app = {id(value): name for name, value in apps.items()}
    if len(names_by_app) > 1:
        choices = " or ".join(f"{module_name}:{name}" for name in sorted(names_by_app.values()))
        raise CommandError(f"The module {module_name} has several apps. Name one: {choices}.")
    if not apps:
        raise CommandError(
            f"The module {module_name} has no Penstock app at its top level. "
            f"Make one there (app = Penstock()), or name where it is: {module_name}:name."
        )
    return next(iter(apps.values()))


def _import_module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if not name or name.endswith(".py") or "/" in name:
        raise CommandError(
            f"{name!r} is not a module name. Write it as Python imports it: shop.jobs for "
            "the file shop/jobs.py in the current folder."
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The module itself is missing, not one that it imports.
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(
                f"There is no module {error.name}, in the current folder ({here}) or installed. "
                "Run the command where your code is, or set PYTHONPATH."
            ) from error
        raise CommandError(_describe_import_error(name, error)) from error
    except Exception as error:
        raise CommandError(_describe_import_error(name, error)) from error


def _describe_import_error(name: str, error: Exception) -> str:
    reason = f"{type(error).__name__}: {error}".rstrip(".")
    return f"The module {name} could not be imported: {reason}. PENSTOCK_TRACEBACK=1 shows where."


def _get_named_app(module: ModuleType, attribute: str) -> Penstock:
    if not hasattr(module, attribute):
        raise CommandError(f"The module {module.__name__} has nothing called {attribute}.")
    value = getattr(module, attribute)
    if not isinstance(value, Penstock):
        raise CommandError(
            f"{module.__name__}:{attribute} is not a Penstock app but of type "
            f"{type(value).__name__}."
        )
    return value


class TenantPool(Adapter):
    """A pool that runs statements for one tenant, under row level security.

    Each statement runs in a transaction of its own in which the tenant is set.
    """

    manner = "async"

    def __init__(self, pool: Pool, store: Store, tenant: str) -> None:
        self._pool = pool
        self._store = store
        self._tenant = TenantScope(tenant)

    async def fetch(self, query: str, *params: Any) -> Sequence[Row]:
        async def ask(executor: Executor) -> Sequence[Row]:
            rows: Sequence[Any] = await executor.fetch(query, *params)
            return rows

        return await self._tenant.run(self._pool, self._store, ask)

    async def is_in_transaction(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class OpenQueue:
    """An open queue, to read and to change.

    If row level security applies to the role, the role sees the jobs of one tenant at a time, so
    commands must name the tenant.
    """

    app: Penstock
    pool: Pool
    rights: RoleRights
    tenant: str | None = None

    @property
    def client(self) -> Client:
        """A client that records who runs the command, restricted to the tenant if there is one."""
        name = current_user()
        client = self.app if name is None else self.app.acting(name)
        return client if self.tenant is None else client.for_tenant(self.tenant)

    @property
    def executor(self) -> Executor:
        """The pool that runs statements, restricted to the tenant if there is one."""
        if self.tenant is None:
            return self.pool
        return TenantPool(self.pool, self.app.store, self.tenant)

    @property
    def insights(self) -> Insights:
        """Reads on the queue, restricted to the tenant if there is one."""
        insights_class = Insights if self.tenant is None else TenantInsights
        return insights_class(self.app.store, self.executor)

    def for_all_tenants(self) -> OpenQueue:
        """Return the queue for a command that reads all tenants.

        Raises `NotAllowed` if the role sees only one tenant at a time.
        """
        if self.rights.is_confined:
            raise self._hidden("Run this as")
        return self

    def for_tenant(self, tenant: str | None) -> OpenQueue:
        """Return the queue, restricted to the tenant if the role sees only one tenant at a time.

        Raises `NotAllowed` if the role needs a tenant and none is named.
        """
        if not self.rights.is_confined:
            return self
        if not tenant:
            raise self._hidden("Give --tenant, or run this as")
        return replace(self, tenant=tenant)

    def _hidden(self, remedy: str) -> NotAllowed:
        return NotAllowed(
            self.rights.role,
            "row level security is on, so this role sees only one tenant, which must be named",
            f"{remedy} the owner of the schema, {self.rights.owner}.",
            place=self.app.database.place,
        )


class _AppWithoutCode(Penstock):
    """An app without tasks, for commands that need only the database. It never migrates."""

    def _make_connector(self, database: Database) -> Connector:
        return Connector(database, migrates=False)


@asynccontextmanager
async def open_queue(db: DatabaseOptions) -> AsyncIterator[OpenQueue]:
    """Open the queue that the options name, for a command that reads all tenants."""
    async with open_unscoped_queue(db) as queue:
        yield queue.for_all_tenants()


@asynccontextmanager
async def open_queue_for(db: DatabaseOptions, tenant: str | None) -> AsyncIterator[OpenQueue]:
    """Open the queue that the options name, restricted to the tenant if the role needs one."""
    async with open_unscoped_queue(db) as queue:
        yield queue.for_tenant(tenant)


@asynccontextmanager
async def open_unscoped_queue(db: DatabaseOptions) -> AsyncIterator[OpenQueue]:
    """Open the queue that the options name, without restricting it to a tenant yet.

    An existing embedded server is started, but none is created.
    """
    database = db.database()
    if database.url is None:
        require_embedded_server(database)
    app = _AppWithoutCode(database.url, data_dir=database.data_dir, schema=database.schema)
    async with open_queue_of_app(app) as queue:
        yield queue


@asynccontextmanager
async def open_queue_of_app(app: Penstock) -> AsyncIterator[OpenQueue]:
    """Open an app, and yield its queue."""
    async with open_app(app), open_reading_pool(app) as pool:
        with explain_database_errors(app.database):
            rights = await _read_rights(app)
            try:
                yield OpenQueue(app, pool, rights)
            except asyncpg.InsufficientPrivilegeError as error:
                raise permission_error_for(rights, error, app.database.place) from error


async def _read_rights(app: Penstock) -> RoleRights:
    """Return the rights of the role, read on a separate connection.

    The pool for reads is not used, because it connects only when a command reads. Raises
    `SchemaMissing` if the schema does not exist.
    """
    connection = await connect(app.url, name="penstock")
    try:
        rights = await read_role_rights(connection, app.database.schema)
    finally:
        await connection.close()
    if rights is None:
        raise SchemaMissing(app.database.schema, place=app.database.place)
    return rights


@asynccontextmanager
async def open_app(app: Penstock, *, waits_for_room: bool = False) -> AsyncIterator[None]:
    """Open an app, and close it at the end of the block.

    With `waits_for_room`, keep trying while the server accepts no more connections.
    """
    with explain_database_errors(app.database):
        await (retry_while_full(app.open, app.events) if waits_for_room else app.open())
    try:
        yield
    finally:
        await app.close()


@asynccontextmanager
async def open_reading_pool(app: Penstock) -> AsyncIterator[Pool]:
    """Open a small pool for reads, separate from the app's own pool."""
    pool = await open_pool(app.url, size=2, name="penstock cli")
    try:
        yield pool
    finally:
        await pool.close()


def require_embedded_server(database: Database) -> None:
    """Raise `NoDatabase` if there is no embedded server, because a read must not create one."""
    require_named_database(database)
    server = Server(database.data_dir)
    if server.status().socket_dir is None:
        raise NoDatabase(
            f"No database is named, and there is no embedded one in {server.data_dir}. "
            "Give --database-url, set PENSTOCK_DATABASE_URL, or start an embedded one with "
            "`penstock db start`."
        )


@contextmanager
def explain_database_errors(database: Database) -> Iterator[None]:
    """Raise errors of the database driver as errors of commands, which say what to do."""
    try:
        yield
    except DatabaseError as error:
        # The connection broke midway. This error says more: what may have been done.
        if isinstance(error, DatabaseLost) and error.is_sent:
            raise
        if not isinstance(error, DatabaseLost | DatabaseDenied):
            raise DatabaseRefused(str(error)) from error
        raise _explain(database.place, error.__cause__ or error) from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # The reader of our output has left, or it is a timeout of our own (also an OSError).
        if isinstance(error, BrokenPipeError | PenstockError):
            raise
        if errors.is_schema_missing(error, database.schema):
            raise SchemaMissing(database.schema, place=database.place) from error
        raise _explain(database.place, error) from error


@contextmanager
def explain_lost_database(database: Database, consequence: str) -> Iterator[None]:
    """Raise `DatabaseUnreachable` if the connection is lost within the block.

    `consequence` is the last sentence of the message, which says what happens to unfinished work.
    """
    try:
        yield
    except Exception as error:
        is_lost = isinstance(error, DatabaseLost) or errors.is_lost(error)
        if not is_lost or isinstance(error, BrokenPipeError):
            raise
        why = errors.why(error.__cause__ or error if isinstance(error, DatabaseLost) else error)
        raise DatabaseUnreachable(f"{database.place} was lost: {why}. {consequence}") from error


def _explain(place: str, error: BaseException) -> CommandError:
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return AccessDenied(f"{place} refuses the login of the role: {error}.")
        case asyncpg.InvalidCatalogNameError():
            return DatabaseMissing(f"{place} does not exist: {error}.")
        case asyncpg.PostgresError() if not errors.is_lost(error):
            return DatabaseRefused(f"{place} refuses the command: {error}.")
    return DatabaseUnreachable(
        f"{place} cannot be reached: {errors.why(error)}. Is it running, and is the address right?"
    )
