"""Where a client's questions go, and what comes back of errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NoReturn, TypeVar

from penstock.client.as_tenant import AsTenant
from penstock.client.link import Link
from penstock.client.waiting import until
from penstock.errors import DatabaseLost, NotAllowed, SchemaMissing, TenantMissing
from penstock.store import Executor, Store, failures, refusal
from penstock.store.drivers import Adapter
from penstock.store.refusals import refused
from penstock.tasks.options import limit_key

T = TypeVar("T")

AGAIN: Final = (0.1, 0.5, 2.0)
_NO_WAIT: Final = (
    "Inside your transaction nothing can be waited for: a job that it enqueues begins after your "
    "commit. Wait on app.sync, after the commit."
)


class Asking:
    """Asks the app's pool or the caller's connection, as one tenant or as none.

    Each group of calls is one of these, and a client is all of them.
    """

    def __init__(
        self,
        link: Link,
        connection: Executor | None = None,
        *,
        tenant: AsTenant | None = None,
        by: str | None = None,
    ) -> None:
        self._link = link
        self._connection = connection
        self._tenant = tenant
        self._by = by

    @property
    def store(self) -> Store:
        return self._link.store

    def _actor(self, by: str | None) -> str | None:
        """Who does it, for the audit: who is named, or else whom the client acts for."""
        return self._by if by is None else limit_key("by", by)

    async def _ask(self, question: Callable[[Executor], Awaitable[T]], *, again: bool = True) -> T:
        """Ask the pool or the caller's connection; errors come back in words of the domain.

        `again` says that asking twice does no harm: a broken pool then gets a moment to recover.
        """
        waits = AGAIN if self._connection is None else ()
        for wait in (*waits, None):
            try:
                on = self._connection or await self._link.pool()
                if self._tenant is not None:
                    return await self._tenant.ask(on, self.store, question)
                return await question(on)
            except Exception as error:
                is_harmless = again or failures.never_arrived(error)
                if wait is None or not failures.is_lost(error) or not is_harmless:
                    if failures.is_refused(error):
                        raise await self._refusal(error) from error
                    self._raise_translated(error)
                await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _until(
        self, is_over: Callable[[T], bool], look: Callable[[], Awaitable[T]], timeout: float | None
    ) -> T:
        """Look until it is over or the time is up; what was seen last."""
        if isinstance(self._connection, Adapter) and self._connection.manner == "blocking":
            raise RuntimeError(_NO_WAIT)
        return await until(is_over, look, timeout)

    async def _refusal(self, error: Exception) -> NotAllowed:
        """In a transaction of the caller's own nothing more can be asked."""
        on = None
        if self._connection is None:
            with suppress(Exception):  # it may be the very connection that is refused
                on = await self._link.pool()
        return await refusal(error, self.store.schema, on)

    def _raise_translated(self, error: Exception) -> NoReturn:
        if failures.is_lost(error):
            told = f"The database was lost or could not be reached: {error}"
            raise DatabaseLost(told) from error
        if (told_as := refused(error)) is not None:
            raise told_as from error
        if failures.is_state(error, failures.TENANT_MISSING):
            raise TenantMissing from error
        if failures.is_schema_missing(error):
            raise SchemaMissing(self.store.schema) from error
        raise error
