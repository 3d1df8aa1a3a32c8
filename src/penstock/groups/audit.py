"""Read the audit: who changed what, and when."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from penstock.connect import scope
from penstock.connect.scope import Calls
from penstock.errors import BadArgument, JobNotFound
from penstock.groups.arguments import check_whole_number
from penstock.store import key_of
from penstock.store.access import Access

MAX_ENTRIES_PER_PAGE: Final = 1000


class AuditEntry(Struct, frozen=True, kw_only=True):
    """A change: who made it (`actor`), what was changed (`target`), and details."""

    id: str
    at: datetime
    actor: str
    """`key:NAME`, a person's name, or the database's role where nobody is named."""
    action: str
    tenant: str
    target: str | None
    detail: Any


class AuditPage(NamedTuple):
    """Entries of the audit, newest first.

    Pass `after` to get the next page. It is None on the last page.
    """

    entries: tuple[AuditEntry, ...]
    after: str | None


class AuditCalls(Calls):
    """The call that reads the audit."""

    async def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        tenant: str | None = None,
        since: datetime | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> AuditPage:
        """List who changed what, newest first. Pass `page.after` as `after` for the next page."""
        check_whole_number("limit", limit, 1, MAX_ENTRIES_PER_PAGE)
        if self._tenant is not None:
            tenant = self._tenant.resolve(tenant)
        texts = scope.check_texts(actor=actor, action=action, target=target, tenant=tenant)
        values = (*texts, since, _cursor(after), limit)
        rows = await self._execute(lambda on: Access(self.store).rows(on, "list_audit", *values))
        entries = tuple(_entry(row) for row in rows)
        return AuditPage(entries, entries[-1].id if len(entries) == limit else None)


def _cursor(after: str | None) -> int | None:
    if after is None:
        return None
    try:
        return key_of(after)
    except JobNotFound:
        raise BadArgument("after", after, "the id of an entry") from None


def _entry(row: dict[str, Any]) -> AuditEntry:
    detail = row.pop("detail")
    decoded = None if detail is None else msgspec.json.decode(detail)
    return AuditEntry(id=str(row.pop("id")), detail=decoded, **row)
