"""A client's questions, asked as one tenant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg
from msgspec.structs import replace

from penstock.errors import BadArgument, TenantMismatch
from penstock.sql import roles
from penstock.store import Executor, Store, is_in_transaction
from penstock.tasks import Request
from penstock.tasks.options import CHECKS

T = TypeVar("T")

NO_TRANSACTION = (
    "A tenant is set for a transaction, and there is none on your connection: begin one first."
)


class AsTenant:
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
            await on.fetch(store.statement("be_confined"), self.name, app)
        else:
            await on.fetch(store.statement("be_tenant"), self.name)

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
