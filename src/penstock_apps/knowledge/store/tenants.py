"""The settings, the quotas and the usage of tenants."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from penstock_apps.knowledge.errors import QuotaExceeded
from penstock_apps.knowledge.settings import Settings
from penstock_apps.knowledge.store.tables import Connection, TablePool


class Quotas(Struct, frozen=True):
    """The quotas of a tenant. 0 means no limit, and None means the installation's quota."""

    documents: int | None = None
    bytes: int | None = None
    chunks: int | None = None
    tokens: int | None = None


class TenantSettings(Struct, frozen=True):
    """The settings of one tenant, which override those of the installation."""

    quotas: Quotas = Quotas()
    inline: bool | None = None
    background: bool | None = None
    plan: str | None = None
    raw_days: float | None = None


class Tenant(Struct, frozen=True):
    """A tenant: whether it is active, its settings, and its usage."""

    active: bool
    settings: TenantSettings
    documents: int
    bytes: int
    chunks: int
    tokens: int

    def limits(self, settings: Settings) -> Quotas | None:
        """Return the tenant's quotas, with the installation's as defaults; None without limits."""
        limits = {}
        for name in Quotas.__struct_fields__:
            own = getattr(self.settings.quotas, name)
            limits[name] = getattr(settings, f"quota_{name}") if own is None else own
        return Quotas(**limits) if any(limits.values()) else None

    def has_background(self, settings: Settings, rank: float) -> bool:
        """Return whether larger uploads are answered before their documents are ingested.

        The tenant's own setting decides. Without one, background processing must be on for its
        plan, its number of documents and its `rank`, which is a number from 0 to 1.
        """
        if self.settings.background is not None:
            return self.settings.background
        max_documents = settings.background_most_documents
        return (
            settings.background
            and (not settings.plans or self.settings.plan in settings.plans)
            and self.documents >= settings.background_least_documents
            and (not max_documents or self.documents <= max_documents)
            and rank < settings.background_share
        )

    def check(self, limits: Quotas, documents: int = 0, size: int = 0) -> None:
        """Raise QuotaExceeded if adding documents and `size` bytes would exceed the limits.

        A tenant that has reached its limit of chunks or tokens can add no document either.
        """
        more = {"documents": documents, "bytes": size, "chunks": 1, "tokens": 1}
        for name in Quotas.__struct_fields__:
            allowed, needed = getattr(limits, name), getattr(self, name) + more[name]
            if allowed and needed > allowed:
                raise QuotaExceeded(name, allowed, needed)


class Tenants:
    """Reads and writes the rows of tenants."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def lock(self, on: Connection, tenant: str, *, exclusive: bool = False) -> None:
        """Lock a tenant until the transaction ends.

        Transactions that check quotas or remove the tenant take an `exclusive` lock. All others
        share the lock, and wait only for an exclusive one.
        """
        await on.fetch(self._sql("lock_tenant"), tenant, exclusive)

    async def is_active(self, on: Connection, tenant: str) -> bool:
        """Return whether the tenant is switched on and not deleted."""
        return bool(await on.fetchval(self._sql("is_tenant_active"), tenant))

    async def is_deleted(self, on: Connection, tenant: str) -> bool:
        """Return whether the tenant is deleted and not removed yet."""
        return bool(await on.fetchval(self._sql("is_tenant_deleted"), tenant))

    async def get(self, on: Connection, tenant: str) -> Tenant:
        row = await on.fetchrow(self._sql("get_tenant"), tenant)
        assert row is not None
        settings = msgspec.json.decode(row["settings"], type=TenantSettings)
        return Tenant(**{**row, "settings": settings})

    async def set(
        self, on: Connection, tenant: str, active: bool | None, settings: dict[str, Any]
    ) -> None:
        """Change the given settings of a tenant; `active` stays as it is if None."""
        msgspec.convert(settings, TenantSettings)
        text = msgspec.json.encode(settings).decode()
        await on.execute(self._sql("set_tenant"), tenant, active, text)
