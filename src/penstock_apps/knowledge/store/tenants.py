"""What is set for tenants, and what they have."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from penstock_apps.knowledge.errors import QuotaExceeded
from penstock_apps.knowledge.settings import Settings
from penstock_apps.knowledge.store.tables import Connection, TablePool


class Quotas(Struct, frozen=True):
    """How much a tenant may have; None is what the installation says, 0 is no limit."""

    documents: int | None = None
    bytes: int | None = None
    chunks: int | None = None
    tokens: int | None = None


class TenantSettings(Struct, frozen=True):
    """What a tenant has of its own."""

    quotas: Quotas = Quotas()
    inline: bool | None = None
    background: bool | None = None
    plan: str | None = None
    raw_days: float | None = None


class Tenant(Struct, frozen=True):
    """A tenant: whether it is active, its settings, and what it has."""

    active: bool
    settings: TenantSettings
    documents: int
    bytes: int
    chunks: int
    tokens: int

    def limits(self, settings: Settings) -> Quotas | None:
        """How much of each it may have: its own quotas, else those of all. None is no limit."""
        found = {}
        for what in Quotas.__struct_fields__:
            own = getattr(self.settings.quotas, what)
            found[what] = getattr(settings, f"quota_{what}") if own is None else own
        return Quotas(**found) if any(found.values()) else None

    def has_background(self, settings: Settings, place: float) -> bool:
        """Whether its uploads, unless they are small, are answered before they are in.

        As is set for it; else if it has a plan, a size and a place among all tenants, from 0 to 1,
        for which background processing is on.
        """
        if self.settings.background is not None:
            return self.settings.background
        most = settings.background_most_documents
        return (
            settings.background
            and (not settings.plans or self.settings.plan in settings.plans)
            and self.documents >= settings.background_least_documents
            and (not most or self.documents <= most)
            and place < settings.background_share
        )

    def check(self, limits: Quotas, documents: int = 0, size: int = 0) -> None:
        """QuotaExceeded if it has more than it may, with so much more than there is now.

        Who has as many chunks or tokens as are allowed gets no more documents.
        """
        more = {"documents": documents, "bytes": size, "chunks": 1, "tokens": 1}
        for what in Quotas.__struct_fields__:
            allowed, wanted = getattr(limits, what), getattr(self, what) + more[what]
            if allowed and wanted > allowed:
                raise QuotaExceeded(what, allowed, wanted)


class Tenants:
    """The tenants of an installation."""

    def __init__(self, tables: TablePool) -> None:
        self._sql = tables.statement

    async def lock(self, on: Connection, tenant: str, *, alone: bool = False) -> None:
        """Until the end of the transaction nobody counts or removes all of it; `alone`: we do."""
        await on.fetch(self._sql("lock_tenant"), tenant, alone)

    async def is_active(self, on: Connection, tenant: str) -> bool:
        """Whether anything may be done for it."""
        return bool(await on.fetchval(self._sql("is_tenant_active"), tenant))

    async def is_deleted(self, on: Connection, tenant: str) -> bool:
        """Whether it is deleted, and not removed yet."""
        return bool(await on.fetchval(self._sql("is_tenant_deleted"), tenant))

    async def get(self, on: Connection, tenant: str) -> Tenant:
        row = await on.fetchrow(self._sql("get_tenant"), tenant)
        assert row is not None
        settings = msgspec.json.decode(row["settings"], type=TenantSettings)
        return Tenant(**{**row, "settings": settings})

    async def set(
        self, on: Connection, tenant: str, active: bool | None, settings: dict[str, Any]
    ) -> None:
        """Set what is named; the rest stays."""
        msgspec.convert(settings, TenantSettings)
        told = msgspec.json.encode(settings).decode()
        await on.execute(self._sql("set_tenant"), tenant, active, told)
