"""Where a client's questions go, as which tenant, and what comes back of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import asyncpg
from msgspec.structs import replace

from penstock.config import Upkeep
from penstock.connect.connector import TRY_AGAIN, Connector
from penstock.connect.wait import LOOK_GRACE, NoAnswer, until
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


def states(given: State | Sequence[State] | None) -> list[State] | None:
    """The states to look for, checked; None for all."""
    if given is None:
        return None
    chosen: list[Any] = [given] if isinstance(given, str) else list(given)
    for state in chosen:
        if state not in STATES:
            raise BadArgument("state", state, f"one of {', '.join(STATES)}")
    return chosen or None


def texts(**given: Any) -> list[str | None]:
    """Filters by a text, checked: what cannot be stored is in no job."""
    for name, text in given.items():
        if text is not None and (not isinstance(text, str) or UNSTORABLE.search(text)):
            raise BadArgument(name, text, "text without NUL or lone surrogates")
    return list(given.values())


T = TypeVar("T")

NO_TRANSACTION = (
    "A tenant is set for a transaction, and there is none on your connection: begin one first."
)


class TenantScope:
    """One tenant, whom the database is told of in every transaction.

    One that is `confined` asks as the role of apps, so that row level security holds for it even
    where the login is the owner, who stands above it.
    """

    def __init__(self, name: str, *, confined: bool = False) -> None:
        if not name:
            raise BadArgument("tenant", name, "a name that is not empty")
        self.name: str = CHECKS["tenant"]("tenant", name)
        self.confined = confined

    async def ask(
        self, on: Executor, store: Store, question: Callable[[Executor], Awaitable[T]]
    ) -> T:
        """Ask in a transaction that is set to the tenant."""
        if isinstance(on, asyncpg.Pool):  # the caller's
            async with on.acquire() as connection, connection.transaction():
                await self._tell(connection, store)
                return await question(connection)
        await self._tell(on, store)
        if not await is_in_transaction(on):
            raise RuntimeError(NO_TRANSACTION)
        return await question(on)

    async def _tell(self, on: Executor, store: Store) -> None:
        if self.confined:
            app = roles(store.schema).app
            await on.fetch(store.statement("enter_tenant_as_app"), self.name, app)
        else:
            await on.fetch(store.statement("enter_tenant"), self.name)

    def named(self, tenant: str | None) -> str:
        """The tenant of a call that may name it as well, but no other."""
        if tenant and tenant != self.name:
            raise TenantMismatch(tenant, self.name)
        return self.name

    def signed(self, requests: Sequence[Request[Any]]) -> list[Request[Any]]:
        """The requests with the tenant in them, for a transaction that nobody tells of it."""
        return [
            replace(each, options=replace(each.options, tenant=self.named(each.options.tenant)))
            for each in requests
        ]


AGAIN: Final = (0.1, 0.5, 2.0)
LOOK_FIRST: Final = "It may have been done all the same: look before you ask again."
_NO_WAIT: Final = (
    "Inside your transaction nothing can be waited for: a job that it enqueues begins after your "
    "commit. Wait on app.sync, after the commit."
)


class Calls:
    """Asks the app's pool or the caller's connection, as one tenant or as none.

    Each group of calls is one of these, and a client is all of them.
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
        """Who does it, for the audit: who is named, or else whom the client acts for."""
        return self._by if by is None else limit_key("by", by)

    async def _ask(
        self,
        question: Callable[[Executor], Awaitable[T]],
        *,
        again: bool = True,
        doubt: str | None = None,
    ) -> T:
        """Ask the pool or the caller's connection; errors come back in words of the domain.

        `again` says that asking twice does no harm: a broken pool then gets a moment to recover.
        `doubt` is what a caller hears whose question may or may not have been carried out.
        """
        doubt = doubt or (TRY_AGAIN if again else LOOK_FIRST)
        if self._connection is not None:
            return await self._ask_inside(self._connection, question, doubt)
        if self._connector.database.url is None:
            await (
                self._connector.open()
            )  # An embedded server that starts has a time limit of its own.
        progress = CallProgress()
        seconds = self._connector.database.call_timeout
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                try:
                    return await self._ask_pool(question, progress, limit, again)
                except Exception as error:
                    if (known := await self._known(error)) is not None:
                        raise known from error
                    raise
        except Exception as error:
            is_sent = progress.is_sent
            cause = self._connector.late(seconds, is_sent=is_sent) if limit.expired() else error
            if (told := self._connector.explained(cause, doubt, is_sent=is_sent)) is None:
                raise
            raise told from told.__cause__ or error

    async def _ask_pool(
        self,
        question: Callable[[Executor], Awaitable[T]],
        progress: CallProgress,
        limit: asyncio.Timeout,
        again: bool,
    ) -> T:
        """Ask, and ask again after a moment if the connection broke and that does no harm."""
        cancels = store_errors.cancels()
        waits = iter(AGAIN)
        has_covered = False
        while True:
            was_sent = progress.is_sent
            try:
                async with (await self._connector.pool()).acquire() as on:
                    progress.is_sent = True
                    if self._tenant is None:
                        return await question(on)
                    async with on.transaction():
                        return await self._tenant.ask(on, self.store, question)
            except Exception as error:
                store_errors.raise_if_cancelled(error, cancels)
                if store_errors.is_read_only(error):
                    await self._connector.reconnect()
                if store_errors.is_partition_missing(error) and not has_covered:
                    has_covered = True
                    await self._cover(error)
                    continue
                if store_errors.never_arrived(error):
                    progress.is_sent = was_sent
                is_harmless = again or not progress.is_sent
                wait = next(waits, None)
                if wait is None or not is_harmless or not store_errors.is_lost(error):
                    raise
                if not _is_time_for(wait, limit):
                    raise
                await asyncio.sleep(wait)

    async def _cover(self, error: Exception) -> None:
        """Make the partition of the history that a change lacks, or raise what prevents it."""
        try:
            pool = await self._connector.pool()
            await self.store.ensure_partitions(pool, Upkeep().partitions_ahead)
        except Exception as why:
            store_errors.raise_if_cancelled(why)
            # That a right or a lock is missing says less than the error of the change itself.
            is_told = store_errors.is_state(why, store_errors.PARTITION_DETACHED)
            raise why if is_told else error from None

    async def _ask_inside(
        self, on: Executor, question: Callable[[Executor], Awaitable[T]], doubt: str
    ) -> T:
        """Ask in the caller's transaction: its limits, and the errors of its driver, are theirs."""
        try:
            if self._tenant is not None:
                return await self._tenant.ask(on, self.store, question)
            return await question(on)
        except Exception as error:
            if (known := await self._known(error)) is not None:
                raise known from error
            if store_errors.is_lost(error):
                lost = self._connector.lost(error, doubt, is_sent=True)
                raise lost from lost.__cause__
            raise

    async def _until(
        self, is_over: Callable[[T], bool], look: Callable[[], Awaitable[T]], timeout: float | None
    ) -> T:
        """Look until it is over or the time is up; what was seen last."""
        if self._connection is not None:
            if isinstance(self._connection, Adapter) and self._connection.manner == "blocking":
                raise RuntimeError(_NO_WAIT)
            return await until(is_over, look, timeout)
        # Connecting is no part of the wait: the first call of a program may ask for a short one.
        await self._connector.open()
        try:
            return await until(is_over, look, timeout, grace=LOOK_GRACE)
        except NoAnswer as error:
            late = self._connector.late(error.seconds, is_sent=True)
            raise self._connector.lost(late, TRY_AGAIN, is_sent=True) from late

    async def _known(self, error: Exception) -> PenstockError | None:
        """What the queue's functions refuse, and what no migration has made, in words."""
        if store_errors.is_refused(error):
            return await self._refusal(error)
        if (told := queue_error(error)) is not None:
            return told
        if store_errors.is_state(error, store_errors.TENANT_MISSING):
            return TenantMissing()
        if store_errors.is_schema_missing(error, self.store.schema):
            return SchemaMissing(self.store.schema, place=self._connector.database.place)
        return None

    async def _refusal(self, error: Exception) -> NotAllowed:
        """In a transaction of the caller's own nothing more can be asked."""
        on = None
        if self._connection is None:
            with suppress(Exception):  # it may be the very connection that is refused
                on = await self._connector.pool()
        return await self._connector.permission_error(error, on)


class CallExecutor(Adapter):
    """A client as something to ask: each statement is a call of its own, with all that goes along.

    For those who bring statements of their own, such as insights.
    """

    manner = "async"

    def __init__(self, asking: Calls) -> None:
        self._asking = asking

    async def fetch(self, query: str, *params: Any) -> Sequence[Row]:
        async def fetch(on: Executor) -> Sequence[Row]:
            rows: Any = await on.fetch(query, *params)
            return list(rows)

        return await self._asking._ask(fetch)

    async def is_in_transaction(self) -> bool:
        return False


class CallProgress:
    """How far a question has come: an error after it was sent leaves open what became of it."""

    __slots__ = ("is_sent",)

    def __init__(self) -> None:
        self.is_sent = False


def _is_time_for(wait: float, limit: asyncio.Timeout) -> bool:
    """Whether a further try after a wait has a chance: if not, the error at hand says more."""
    ends = limit.when()
    return ends is None or ends - asyncio.get_running_loop().time() > wait


async def in_transaction(
    on: Executor, question: Callable[[Executor], Awaitable[T]], *, is_ours: bool, refusal: str = ""
) -> T:
    """Ask in one transaction: one of ours, or the caller's own, which has to be there."""
    if isinstance(on, asyncpg.Pool):  # the caller's
        async with on.acquire() as connection, connection.transaction():
            return await question(connection)
    if await is_in_transaction(on):
        return await question(on)
    if not is_ours or isinstance(on, Adapter):
        raise RuntimeError(refusal)
    async with on.transaction():
        return await question(on)
