"""Keys, people and the audit: a line for each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from rich.console import RenderableType
from rich.text import Text

from penstock.cli.screens import style
from penstock.cli.words import at, length
from penstock.groups.audit import AuditEntry
from penstock.groups.keys import Key
from penstock.groups.users import Person


def key(found: Key) -> str:
    """A key in a sentence."""
    whose = f", for the tenant {found.tenant} alone" if found.tenant else ""
    until = f", until {at(found.expires_at)} UTC" if found.expires_at else ""
    return f"The key {found.name} may {', '.join(found.scopes)}{whose}{until}."


def keys_table(found: Sequence[Key], width: int) -> RenderableType:
    if not found:
        return style.nothing("There are no keys. Make one: penstock keys create NAME --scope read")
    now = datetime.now(UTC)
    sheet = style.Sheet(width, fills=False)
    sheet.column("key", most=max(16, width // 4))
    sheet.column("id")
    sheet.column("may")
    sheet.column("tenant", needed=any(each.tenant for each in found))
    sheet.column("last used (UTC)")
    sheet.column("")
    for each in found:
        used = at(each.last_used_at) if each.last_used_at else "never"
        sheet.row(
            each.name,
            Text(each.id, style.FAINT),
            ", ".join(each.scopes),
            each.tenant or "",
            Text(used, "" if each.last_used_at else style.FAINT),
            _mark(each, now),
        )
    return sheet.table


def _mark(found: Key, now: datetime) -> Text:
    if found.revoked_at is not None:
        return Text("revoked", style.FAINT)
    replaced = "replaced, " if found.replaced_by else ""
    if found.expires_at is None:
        return Text(replaced.rstrip(", "))
    left = (found.expires_at - now).total_seconds()
    if left <= 0:
        return Text(f"{replaced}expired", style.FAINT)
    return Text(f"{replaced}expires in {length(left)}", "yellow" if left < 7 * 86_400 else "")


def person(found: Person) -> str:
    """A person in a sentence."""
    if found.disabled_at is not None:
        return f"{found.name}, {found.role}, may not log in any more."
    return f"{found.name} may log in, as {found.role}."


def people_table(found: Sequence[Person], width: int) -> RenderableType:
    if not found:
        return style.nothing("There is nobody. Add one: penstock people add NAME --role operator")
    sheet = style.Sheet(width, fills=False)
    sheet.column("name", most=max(16, width // 3))
    sheet.column("role")
    sheet.column("since (UTC)")
    sheet.column("")
    for each in found:
        mark = "" if each.disabled_at is None else "disabled"
        sheet.row(each.name, each.role, at(each.created_at), Text(mark, "yellow"))
    return sheet.table


def audit_table(found: Sequence[AuditEntry], width: int) -> RenderableType:
    if not found:
        return style.nothing("Nothing is noted.")
    sheet = style.Sheet(width, fills=True)
    sheet.column("at (UTC)")
    sheet.column("who", most=max(12, width // 5))
    sheet.column("did")
    sheet.column("tenant", needed=any(each.tenant for each in found))
    sheet.column("to", most=max(12, width // 4))
    sheet.column("", elastic=True)
    for each in found:
        detail = "" if each.detail is None else msgspec.json.encode(each.detail).decode()
        sheet.row(
            at(each.at),
            each.actor,
            each.action,
            each.tenant,
            each.target or "",
            Text(detail, style.FAINT),
        )
    return sheet.table
