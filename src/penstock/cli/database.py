"""Open the queue for a command, with a clear message when its database cannot be used."""

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
from penstock.cli.options import Where
from penstock.config import Database
from penstock.connect.connector import Connector, expect_asked
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
from penstock.worker.room import when_there_is_room


def user() -> str | None:
    """Who types, for the audit; None where the system knows nobody."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


def find_app(target: str) -> Penstock:
    """Import the module and return its app: the one that is named, else the only one there is."""
    module_name, _, attribute = target.partition(":")
    module = _import(module_name)
    if attribute:
        return _named(module, attribute)
    apps = {name: value for name, value in vars(module).items() if isinstance(value, Penstock)}
    different = {id(value): name for name, value in apps.items()}
    if len(different) > 1:
        choices = " or ".join(f"{module_name}:{name}" for name in sorted(different.values()))
        raise CommandError(f"The module {module_name} has several apps. Name one: {choices}.")
    if not apps:
        raise CommandError(
            f"The module {module_name} has no Penstock app at its top level. "
            f"Make one there (app = Penstock()), or name where it is: {module_name}:name."
        )
    return next(iter(apps.values()))


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if not name or name.endswith(".py") or "/" in name:
        raise CommandError(
            f"{name!r} is no name of a module. Write it as Python imports it: shop.jobs for "
            "the file shop/jobs.py in the current folder."
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only if the module itself is missing: what it fails to import is another matter.
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(
                f"There is no module {error.name}, in the current folder ({here}) or installed. "
                "Run the command where your code is, or set PYTHONPATH."
            ) from error
        raise CommandError(_broken(name, error)) from error
    except Exception as error:
        raise CommandError(_broken(name, error)) from error


def _broken(name: str, error: Exception) -> str:
    told = f"{type(error).__name__}: {error}".rstrip(".")
    return f"The module {name} could not be imported: {told}. PENSTOCK_TRACEBACK=1 shows where."


def _named(module: ModuleType, attribute: str) -> Penstock:
    if not hasattr(module, attribute):
        raise CommandError(f"The module {module.__name__} has nothing called {attribute}.")
    found = getattr(module, attribute)
    if not isinstance(found, Penstock):
        raise CommandError(
            f"{module.__name__}:{attribute} is no Penstock app but of type {type(found).__name__}."
        )
    return found


class TenantPool(Adapter):
    """Asks as a tenant, under row level security."""

    manner = "async"

    def __init__(self, pool: Pool, store: Store, tenant: str) -> None:
        self._pool = pool
        self._store = store
        self._tenant = TenantScope(tenant)

    async def fetch(self, query: str, *params: Any) -> Sequence[Row]:
        async def ask(on: Executor) -> Sequence[Row]:
            rows: Sequence[Any] = await on.fetch(query, *params)
            return rows

        return await self._tenant.ask(self._pool, self._store, ask)

    async def is_in_transaction(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Reached:
    """A queue that was reached: to change it, and to look at it.

    Where row level security holds for the role, it is seen as one tenant, or not at all.
    """

    app: Penstock
    pool: Pool
    rights: RoleRights
    tenant: str | None = None

    @property
    def client(self) -> Client:
        """The calls of an app, for who types, and as the tenant if there is one."""
        name = user()
        client = self.app if name is None else self.app.acting(name)
        return client if self.tenant is None else client.for_tenant(self.tenant)

    @property
    def on(self) -> Executor:
        """Where statements are asked."""
        if self.tenant is None:
            return self.pool
        return TenantPool(self.pool, self.app.store, self.tenant)

    @property
    def insights(self) -> Insights:
        kind = Insights if self.tenant is None else TenantInsights
        return kind(self.app.store, self.on)

    def for_owner(self) -> Reached:
        """For commands that look at all tenants; refused where the role sees but one."""
        if self.rights.is_confined:
            raise self._hidden("Run this as")
        return self

    def for_tenant(self, tenant: str | None) -> Reached:
        """For commands that may be about one tenant, which the role may have to be."""
        if not self.rights.is_confined:
            return self
        if not tenant:
            raise self._hidden("Give --tenant, or run this as")
        return replace(self, tenant=tenant)

    def _hidden(self, remedy: str) -> NotAllowed:
        return NotAllowed(
            self.rights.role,
            "row level security is on, and it sees only what belongs to a tenant that is named",
            f"{remedy} the owner of the schema, {self.rights.owner}.",
            place=self.app.database.place,
        )


class _Visitor(Penstock):
    """An app without code: it takes the schema as it is, and makes none."""

    def _make_connector(self, database: Database) -> Connector:
        return Connector(database, migrates=False)


@asynccontextmanager
async def reached(where: Where) -> AsyncIterator[Reached]:
    """The queue that the options name, with all of its tenants."""
    async with visited(where) as queue:
        yield queue.for_owner()


@asynccontextmanager
async def reached_for(where: Where, tenant: str | None) -> AsyncIterator[Reached]:
    """The queue that the options name, as the tenant where the role sees no more."""
    async with visited(where) as queue:
        yield queue.for_tenant(tenant)


@asynccontextmanager
async def visited(where: Where) -> AsyncIterator[Reached]:
    """The queue that the options name. An embedded server is started, but none is made."""
    database = where.database()
    if database.url is None:
        expect_server(database)
    app = _Visitor(database.url, data_dir=database.data_dir, schema=database.schema)
    async with reached_by(app) as queue:
        yield queue


@asynccontextmanager
async def reached_by(app: Penstock) -> AsyncIterator[Reached]:
    """The queue of an app, which is opened for it."""
    async with opened(app), looking(app) as pool:
        with plain_errors(app.database):
            found = await _role_rights(app)
            try:
                yield Reached(app, pool, found)
            except asyncpg.InsufficientPrivilegeError as error:
                raise permission_error_for(found, error, app.database.place) from error


async def _role_rights(app: Penstock) -> RoleRights:
    """What the role may do; the connections for those who look are left until they look."""
    connection = await connect(app.url, name="penstock")
    try:
        found = await read_role_rights(connection, app.database.schema)
    finally:
        await connection.close()
    if found is None:
        raise SchemaMissing(app.database.schema, place=app.database.place)
    return found


@asynccontextmanager
async def opened(app: Penstock, *, waits_for_room: bool = False) -> AsyncIterator[None]:
    """The app, open; closed in any case.

    `waits_for_room` keeps trying while the server takes no more connections.
    """
    with plain_errors(app.database):
        await (when_there_is_room(app.open, app.events) if waits_for_room else app.open())
    try:
        yield
    finally:
        await app.close()


@asynccontextmanager
async def looking(app: Penstock) -> AsyncIterator[Pool]:
    """Connections for those who look, apart from the app's own."""
    pool = await open_pool(app.url, size=2, name="penstock cli")
    try:
        yield pool
    finally:
        await pool.close()


def expect_server(database: Database) -> None:
    """Raise if there is no embedded server yet: none is made for a look."""
    expect_asked(database)
    server = Server(database.data_dir)
    if server.status().socket_dir is None:
        raise NoDatabase(
            f"There is no database: none is named, and no embedded one is in {server.data_dir}. "
            "Give --database-url or set PENSTOCK_DATABASE_URL, or make an embedded one with "
            "`penstock db start`."
        )


@contextmanager
def plain_errors(database: Database) -> Iterator[None]:
    """What the driver raises, in words."""
    try:
        yield
    except DatabaseError as error:
        # One that broke midway says more itself: what may have been done.
        if isinstance(error, DatabaseLost) and error.is_sent:
            raise
        if not isinstance(error, DatabaseLost | DatabaseDenied):
            raise DatabaseRefused(str(error)) from error
        raise _explained(database.place, error.__cause__ or error) from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        # The reader of our output has gone; or it is one of our own timeouts.
        if isinstance(error, BrokenPipeError | PenstockError):
            raise
        if errors.is_schema_missing(error, database.schema):
            raise SchemaMissing(database.schema, place=database.place) from error
        raise _explained(database.place, error) from error


@contextmanager
def lost_midway(database: Database, told: str) -> Iterator[None]:
    """A database that was there and is no more, in words; `told` says what becomes of the rest."""
    try:
        yield
    except Exception as error:
        is_lost = isinstance(error, DatabaseLost) or errors.is_lost(error)
        if not is_lost or isinstance(error, BrokenPipeError):
            raise
        why = errors.why(error.__cause__ or error if isinstance(error, DatabaseLost) else error)
        raise DatabaseUnreachable(f"{database.place} was lost: {why}. {told}") from error


def _explained(place: str, error: BaseException) -> CommandError:
    match error:
        case asyncpg.InvalidAuthorizationSpecificationError():
            return AccessDenied(f"{place} does not let the role in: {error}.")
        case asyncpg.InvalidCatalogNameError():
            return DatabaseMissing(f"{place} is not there: {error}.")
        case asyncpg.PostgresError() if not errors.is_lost(error):
            return DatabaseRefused(f"{place} refuses: {error}.")
    return DatabaseUnreachable(
        f"{place} cannot be reached: {errors.why(error)}. Is it running, and is the address right?"
    )
