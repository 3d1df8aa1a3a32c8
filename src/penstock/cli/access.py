"""What `penstock keys`, `people` and `audit` do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.cli.given import user
from penstock.cli.listening import expect_service
from penstock.cli.opening import reached
from penstock.cli.output import Output, say, terminal
from penstock.cli.screens import access as told
from penstock.cli.where import Where
from penstock.groups.keys import NewKey, Role, Scope


async def show_keys(all: bool, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.keys(all=all)
    output.show({"keys": found}, lambda: told.keys_table(found, terminal().width))


async def create_key(
    name: str,
    scopes: Sequence[Scope],
    tenant: str | None,
    expires: float | None,
    where: Where,
    output: Output,
) -> None:
    async with reached(where) as queue:
        made = await queue.app.create_key(
            name, scopes=scopes, tenant=tenant, expires=expires, by=user()
        )
    _show_once(made, output)


async def rotate_key(
    key: str, overlap: float, expires: float | None, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        made = await queue.app.rotate_key(key, overlap=overlap, expires=expires, by=user())
    _show_once(made, output)


async def revoke_key(key: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        revoked = await queue.app.revoke_key(key, by=user())
    output.show({"revoked": revoked}, lambda: f"{key} lets nobody in any more.")


def _show_once(made: NewKey, output: Output) -> None:
    output.show(made, lambda: made.secret)
    say(f"{told.key(made.key)} It is shown this once: keep it where secrets are kept.")


async def show_people(where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.people()
    output.show({"people": found}, lambda: told.people_table(found, terminal().width))


async def add_person(name: str, role: Role, password: str, where: Where, output: Output) -> None:
    kept = await _hashed(password)
    async with reached(where) as queue:
        made = await queue.app.add_person(name, role=role, password_hash=kept, by=user())
    output.show(made, lambda: told.person(made))


async def change_person(
    name: str, where: Where, output: Output, *, password: str | None = None, **changes: Any
) -> None:
    if password is not None:
        changes["password_hash"] = await _hashed(password)
    async with reached(where) as queue:
        found = await queue.app.set_person(name, **changes, by=user())
    output.show(found, lambda: told.person(found))


async def _hashed(password: str) -> str:
    expect_service()
    from penstock.service.passwords import Passwords

    return await Passwords().hash(password)


async def show_audit(
    which: dict[str, Any], after: str | None, limit: int, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        page = await queue.app.audit(**which, after=after, limit=limit)
    document = {"entries": page.entries, "after": page.after}
    output.show(document, lambda: told.audit_table(page.entries, terminal().width))
    if page.after is not None and not output.as_json:
        say(f"There may be more: --after {page.after}")
