"""Run a client's statements, with its connection and tenant, retries and error translation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import asyncpg
from msgspec.structs import replace

from penstock.config import Upkeep
from penstock.connect.connector import TRY_AGAIN, Connector
from penstock.connect.wait import ANSWER_GRACE_S, NoAnswer, poll_until
from penstock.errors import (
    BadArgument,
    NotAllowed,
    PenstockError,
    SchemaMissing,
    TenantMismatch,
    TenantMissing,
)
from penstock.job import STATES, UNSTORABLE, State
from penstock.sql import roles
from penstock.store import Executor, Store, is_in_transaction
from penstock.store import errors as store_errors
from penstock.store.drivers.adapter import Adapter, Row
from penstock.store.errors import queue_error
from penstock.tasks import Request
from penstock.tasks.options import CHECKS, limit_key


def check_states(states: State | Sequence[State] | None) -> list[State] | None:
    """Return the states of a filter as a list, or None for all states.

    Raises BadArgument for an unknown state.
    """
    if states is None:
        return None
    chosen: list[Any] = [states] if isinstance(states, str) else list(states)
    for state in chosen:
        if state not in STATES:
            raise BadArgument("state", state, f"one of {', '.join(STATES)}")
    return chosen or None


def check_texts(**texts: Any) -> list[str | None]:
    """Return the texts of a filter as a list, in the order of the arguments.

    Raises BadArgument for a text that Postgres cannot store.
    """
    for name, text in texts.items():
        if text is not None and (not isinstance(text, str) or UNSTORABLE.search(text)):
            raise BadArgument(name, text, "text without NUL or lone surrogates")
    return list(texts.values())


T = TypeVar("T")

NO_TRANSACTION = (
    "A tenant is set for one transaction, but your connection has no open transaction. Begin "
    "one first."
)


class TenantScope:
    """Run statements for one tenant, which is set in every transaction.

    A `confined` scope also switches to the role of apps. Row level security then applies even if
    the login is the owner of the schema.
    """

    def __init__(self, name: str, *, confined: bool = False) -> None:
        if not name:
            raise BadArgument("tenant", name, "a name that is not empty")
        self.name: str = CHECKS["tenant"]("tenant", name)
        self.confined = confined

    async def run(
        self, on: Executor, store: Store, operation: Callable[[Executor], Awaitable[T]]
    ) -> T:
        """Run an operation in a transaction in which the tenant is set.

        Raises RuntimeError if the caller's connection has no open transaction.
        """
        if isinstance(on, asyncpg.Pool):  # A pool of the caller's.
            async with on.acquire() as connection, connection.transaction():
                await self._set_tenant(connection, store)
                return await operation(connection)
        await self._set_tenant(on, store)
        if not await is_in_transaction(on):
            raise RuntimeError(NO_TRANSACTION)
        return await operation(on)

    async def _set_tenant(self, on: Executor, store: Store) -> None:
        if self.confined:
            app = roles(store.schema).app
            await on.fetch(store.statement("enter_tenant_as_app"), self.name, app)
        else:
            await on.fetch(store.statement("enter_tenant"), self.name)

    def resolve(self, tenant: str | None) -> str:
        """Return this tenant. Raises TenantMismatch if the call names another one."""
        if tenant and tenant != self.name:
            raise TenantMismatch(tenant, self.name)
        return self.name

    def assign(self, requests: Sequence[Request[Any]]) -> list[Request[Any]]:
        """Set this tenant in the options of requests.

        This is for statements that run in a transaction without `penstock.tenant`.
        """
        return [
            replace(
                request,
                options=replace(request.options, tenant=self.resolve(request.options.tenant)),
            )
            for request in requests
        ]


RETRY_DELAYS_S: Final = (0.1, 0.5, 2.0)
CHECK_FIRST: Final = (
    "The call may have been carried out all the same. Check that before you repeat it."
)
_NO_WAIT: Final = (
    "You cannot wait inside your transaction: a job that it enqueues begins only after the "
    "commit. Wait with app.sync, after the commit."
)


class Calls:
    """Run statements on the app's pool or the caller's connection, for one tenant or for all.

    It is the base of each group of calls. A client inherits from all groups.
    """

    def __init__(
        self,
        connector: Connector,
        connection: Executor | None = None,
        *,
        tenant: TenantScope | None = None,
        by: str | None = None,
    ) -> None:
        self._connector = connector
        self._connection = connection
        self._tenant = tenant
        self._by = by

    @property
    def store(self) -> Store:
        return self._connector.store

    def _actor(self, by: str | None) -> str | None:
        """Return the name for the audit: `by`, or else the name that the client acts for."""
        return self._by if by is None else limit_key("by", by)

    async def _execute(
        self,
        operation: Callable[[Executor], Awaitable[T]],
        *,
        retry: bool = True,
        doubt: str | None = None,
    ) -> T:
        """Run an operation on the pool or the caller's connection, and translate its errors.

        `retry` says that the operation may run twice, so it is retried if the connection breaks.
        `doubt` is the advice in the error message if the operation may or may not have been carried
        out.
        """
        doubt = doubt or (TRY_AGAIN if retry else CHECK_FIRST)
        if self._connection is not None:
            return await self._execute_inside(self._connection, operation, doubt)
        if self._connector.database.url is None:
            # The start of an embedded server has a time limit of its own.
            await self._connector.open()
        progress = CallProgress()
        seconds = self._connector.database.call_timeout
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                try:
                    return await self._execute_on_pool(operation, progress, limit, retry)
                except Exception as error:
                    if (queue_error := await self._queue_error(error)) is not None:
                        raise queue_error from error
                    raise
        except Exception as error:
            is_sent = progress.is_sent
            cause = (
                self._connector.timeout_error(seconds, is_sent=is_sent)
                if limit.expired()
                else error
            )
            translated = self._connector.translate_error(cause, doubt, is_sent=is_sent)
            if translated is None:
                raise
            raise translated from translated.__cause__ or error

    async def _execute_on_pool(
        self,
        operation: Callable[[Executor], Awaitable[T]],
        progress: CallProgress,
        limit: asyncio.Timeout,
        retry: bool,
    ) -> T:
        """Run an operation. If the connection breaks and the operation may run twice, retry it."""
        cancels = store_errors.cancels()
        waits = iter(RETRY_DELAYS_S)
        has_created_partitions = False
        while True:
            was_sent = progress.is_sent
            try:
                async with (await self._connector.pool()).acquire() as on:
                    progress.is_sent = True
                    if self._tenant is None:
                        return await operation(on)
                    async with on.transaction():
                        return await self._tenant.run(on, self.store, operation)
            except Exception as error:
                store_errors.raise_if_cancelled(error, cancels)
                if store_errors.is_read_only(error):
                    await self._connector.reconnect()
                if store_errors.is_partition_missing(error) and not has_created_partitions:
                    has_created_partitions = True
                    await self._create_partitions(error)
                    continue
                if store_errors.never_arrived(error):
                    progress.is_sent = was_sent
                is_harmless = retry or not progress.is_sent
                wait = next(waits, None)
                if wait is None or not is_harmless or not store_errors.is_lost(error):
                    raise
                if not _is_time_for(wait, limit):
                    raise
                await asyncio.sleep(wait)

    async def _create_partitions(self, error: Exception) -> None:
        """Create the history partition that a change needs, so that the change can be repeated.

        If that fails, raise the error of the change, unless the new error explains more.
        """
        try:
            pool = await self._connector.pool()
            await self.store.ensure_partitions(pool, Upkeep().partitions_ahead)
        except Exception as failure:
            store_errors.raise_if_cancelled(failure)
            # A missing right or lock here says less than the error of the change itself.
            is_detached = store_errors.is_state(failure, store_errors.PARTITION_DETACHED)
            raise failure if is_detached else error from None

    async def _execute_inside(
        self, on: Executor, operation: Callable[[Executor], Awaitable[T]], doubt: str
    ) -> T:
        """Run an operation in the caller's transaction, without retries and time limits.

        Errors of Penstock's functions and of a lost connection are translated. Other errors of the
        caller's driver are raised unchanged.
        """
        try:
            if self._tenant is not None:
                return await self._tenant.run(on, self.store, operation)
            return await operation(on)
        except Exception as error:
            if (queue_error := await self._queue_error(error)) is not None:
                raise queue_error from error
            if store_errors.is_lost(error):
                lost = self._connector.lost_error(error, doubt, is_sent=True)
                raise lost from lost.__cause__
            raise

    async def _poll(
        self, is_done: Callable[[T], bool], read: Callable[[], Awaitable[T]], timeout: float | None
    ) -> T:
        """Read a value until `is_done` accepts it or the timeout passes. Return the last value."""
        if self._connection is not None:
            if isinstance(self._connection, Adapter) and self._connection.manner == "blocking":
                raise RuntimeError(_NO_WAIT)
            return await poll_until(is_done, read, timeout)
        # Connecting does not count: the first call of a program may have a short timeout.
        await self._connector.open()
        try:
            return await poll_until(is_done, read, timeout, grace=ANSWER_GRACE_S)
        except NoAnswer as error:
            timed_out = self._connector.timeout_error(error.seconds, is_sent=True)
            raise self._connector.lost_error(timed_out, TRY_AGAIN, is_sent=True) from timed_out

    async def _queue_error(self, error: Exception) -> PenstockError | None:
        """Return Penstock's exception for an error of its functions, its rights or its schema.

        Return None for other errors.
        """
        if store_errors.is_refused(error):
            return await self._permission_error(error)
        if (known := queue_error(error)) is not None:
            return known
        if store_errors.is_state(error, store_errors.TENANT_MISSING):
            return TenantMissing()
        if store_errors.is_schema_missing(error, self.store.schema):
            return SchemaMissing(self.store.schema, place=self._connector.database.place)
        return None

    async def _permission_error(self, error: Exception) -> NotAllowed:
        """Return NotAllowed for a missing right.

        On a connection of the caller, the rights cannot be read for the message, because the
        transaction has failed.
        """
        on = None
        if self._connection is None:
            with suppress(Exception):  # Opening the pool may be what is not allowed.
                on = await self._connector.pool()
        return await self._connector.permission_error(error, on)


class CallExecutor(Adapter):
    """Run each statement as a call of a client, with its tenant, retries and error translation.

    It is for classes that have statements of their own, such as `Insights`.
    """

    manner = "async"

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def fetch(self, query: str, *params: Any) -> Sequence[Row]:
        async def fetch(on: Executor) -> Sequence[Row]:
            rows: Any = await on.fetch(query, *params)
            return list(rows)

        return await self._calls._execute(fetch)

    async def is_in_transaction(self) -> bool:
        return False


class CallProgress:
    """Whether an operation was sent to the server.

    If it was, it may or may not have been carried out when an error occurs.
    """

    __slots__ = ("is_sent",)

    def __init__(self) -> None:
        self.is_sent = False


def _is_time_for(wait: float, limit: asyncio.Timeout) -> bool:
    """Return whether there is time for a wait and another try before the limit."""
    ends = limit.when()
    return ends is None or ends - asyncio.get_running_loop().time() > wait


async def in_transaction(
    on: Executor, operation: Callable[[Executor], Awaitable[T]], *, is_ours: bool, refusal: str = ""
) -> T:
    """Run an operation in one transaction.

    On a pool or on Penstock's own connection (`is_ours`), a transaction is begun. On the caller's
    connection a transaction must be open already. Otherwise RuntimeError is raised with the text
    `refusal`.
    """
    if isinstance(on, asyncpg.Pool):  # A pool of the caller's.
        async with on.acquire() as connection, connection.transaction():
            return await operation(connection)
    if await is_in_transaction(on):
        return await operation(on)
    if not is_ours or isinstance(on, Adapter):
        raise RuntimeError(refusal)
    async with on.transaction():
        return await operation(on)
