"""`penstock keys`: what lets programs into the service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from penstock.cli import tables
from penstock.cli.database import reached, user
from penstock.cli.framework import Command, examples, group, spread
from penstock.cli.options import Where, seconds
from penstock.cli.output import Output, say, terminal
from penstock.cli.tables import at, length
from penstock.groups.keys import Key, NewKey, Scope

app = group("keys", help="Make keys for programs that use the service.")


class ScopeName(StrEnum):
    read = "read"
    enqueue = "enqueue"
    operate = "operate"
    admin = "admin"
    on_behalf = "on_behalf"


Which = Annotated[str, typer.Argument(metavar="KEY", help="Its name, or its id.")]
Expires = Annotated[
    float | None,
    typer.Option(
        parser=seconds,
        metavar="DURATION",
        help="In how long it expires, such as 90d.",
        show_default=False,
    ),
]


@app.command("list", cls=Command)
@examples("penstock keys list", "penstock keys list --all --json")
@spread
def list_keys(
    *,
    all: Annotated[
        bool, typer.Option("--all", help="Those that were revoked or have expired, too.")
    ] = False,
    where: Where,
    output: Output,
) -> None:
    """List the keys; what they open and who uses them, never their secrets."""
    asyncio.run(_show_keys(all, where, output))


@app.command("create", cls=Command)
@examples(
    "penstock keys create deploy --scope read --scope enqueue --expires 90d",
    "penstock keys create grafana --scope read --json",
)
@spread
def create_key(
    *,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whom the audit will name.")],
    scope: Annotated[
        list[ScopeName],
        typer.Option(
            help="What it may do; may be given several times. read: look; enqueue: enqueue jobs; "
            "operate: cancel, retry, pause, change settings; admin: keys, people, the audit; "
            "on_behalf: name the person whom it enqueues for."
        ),
    ],
    tenant: Annotated[
        str | None,
        typer.Option(
            help="The one tenant that it sees; needs `penstock migrate --rls`.", show_default=False
        ),
    ] = None,
    expires: Expires = None,
    where: Where,
    output: Output,
) -> None:
    """Make a key. It is printed this once: only a hash of it is kept."""
    asyncio.run(_create_key(name, [each.value for each in scope], tenant, expires, where, output))


@app.command("rotate", cls=Command)
@examples("penstock keys rotate ci --overlap 1h")
@spread
def rotate_key(
    *,
    key: Which,
    overlap: Annotated[
        float,
        typer.Option(
            parser=seconds, metavar="DURATION", help="How long the old one is still good."
        ),
    ] = 86_400.0,
    expires: Expires = None,
    where: Where,
    output: Output,
) -> None:
    """Make a new key in place of one; both are good until the overlap is over.

    It has the same name and rights and, unless --expires says otherwise, as long a life.
    """
    asyncio.run(_rotate_key(key, overlap, expires, where, output))


@app.command("revoke", cls=Command)
@examples("penstock keys revoke ci")
@spread
def revoke_key(key: Which, where: Where, output: Output) -> None:
    """Let a key in no more: by its id that one, by its name all that have it.

    Services know it within five seconds.
    """
    asyncio.run(_revoke_key(key, where, output))


def _key_sentence(found: Key) -> str:
    """A key in a sentence."""
    whose = f", for the tenant {found.tenant} alone" if found.tenant else ""
    until = f", until {at(found.expires_at)} UTC" if found.expires_at else ""
    return f"The key {found.name} may {', '.join(found.scopes)}{whose}{until}."


def _keys_table(found: Sequence[Key], width: int) -> RenderableType:
    if not found:
        return tables.nothing("There are no keys. Make one: penstock keys create NAME --scope read")
    now = datetime.now(UTC)
    sheet = tables.Sheet(width, fills=False)
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
            Text(each.id, tables.FAINT),
            ", ".join(each.scopes),
            each.tenant or "",
            Text(used, "" if each.last_used_at else tables.FAINT),
            _mark(each, now),
        )
    return sheet.table


def _mark(found: Key, now: datetime) -> Text:
    if found.revoked_at is not None:
        return Text("revoked", tables.FAINT)
    replaced = "replaced, " if found.replaced_by else ""
    if found.expires_at is None:
        return Text(replaced.rstrip(", "))
    left = (found.expires_at - now).total_seconds()
    if left <= 0:
        return Text(f"{replaced}expired", tables.FAINT)
    return Text(f"{replaced}expires in {length(left)}", "yellow" if left < 7 * 86_400 else "")


async def _show_keys(all: bool, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        found = await queue.app.keys(all=all)
    output.show({"keys": found}, lambda: _keys_table(found, terminal().width))


async def _create_key(
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


async def _rotate_key(
    key: str, overlap: float, expires: float | None, where: Where, output: Output
) -> None:
    async with reached(where) as queue:
        made = await queue.app.rotate_key(key, overlap=overlap, expires=expires, by=user())
    _show_once(made, output)


async def _revoke_key(key: str, where: Where, output: Output) -> None:
    async with reached(where) as queue:
        revoked = await queue.app.revoke_key(key, by=user())
    output.show({"revoked": revoked}, lambda: f"{key} lets nobody in any more.")


def _show_once(made: NewKey, output: Output) -> None:
    output.show(made, lambda: made.secret)
    say(f"{_key_sentence(made.key)} It is shown this once: keep it where secrets are kept.")
