"""`penstock keys`: API keys for programs that use the service."""

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
from penstock.cli.database import current_user, open_queue
from penstock.cli.framework import Command, examples, expand_options, group
from penstock.cli.options import DatabaseOptions, parse_duration
from penstock.cli.output import Output, say, terminal
from penstock.cli.tables import format_duration, format_time
from penstock.groups.keys import Key, NewKey, Scope

app = group("keys", help="Make keys for programs that use the service.")


class ScopeName(StrEnum):
    read = "read"
    enqueue = "enqueue"
    operate = "operate"
    admin = "admin"
    on_behalf = "on_behalf"


KeyName = Annotated[str, typer.Argument(metavar="KEY", help="Its name, or its id.")]
Expires = Annotated[
    float | None,
    typer.Option(
        parser=parse_duration,
        metavar="DURATION",
        help="In how long it expires, such as 90d.",
        show_default=False,
    ),
]


@app.command("list", cls=Command)
@examples("penstock keys list", "penstock keys list --all --json")
@expand_options
def list_keys(
    *,
    all: Annotated[
        bool, typer.Option("--all", help="Those that were revoked or have expired, too.")
    ] = False,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """List the keys; what they open and who uses them, never their secrets."""
    asyncio.run(_show_keys(all, db, output))


@app.command("create", cls=Command)
@examples(
    "penstock keys create deploy --scope read --scope enqueue --expires 90d",
    "penstock keys create grafana --scope read --json",
)
@expand_options
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
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Make a key. It is printed this once: only a hash of it is kept."""
    asyncio.run(
        _create_key(name, [scope_name.value for scope_name in scope], tenant, expires, db, output)
    )


@app.command("rotate", cls=Command)
@examples("penstock keys rotate ci --overlap 1h")
@expand_options
def rotate_key(
    *,
    key: KeyName,
    overlap: Annotated[
        float,
        typer.Option(
            parser=parse_duration, metavar="DURATION", help="How long the old one is still good."
        ),
    ] = 86_400.0,
    expires: Expires = None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Make a new key in place of one; both are good until the overlap is over.

    It has the same name and rights and, unless --expires says otherwise, as long a life.
    """
    asyncio.run(_rotate_key(key, overlap, expires, db, output))


@app.command("revoke", cls=Command)
@examples("penstock keys revoke ci")
@expand_options
def revoke_key(key: KeyName, db: DatabaseOptions, output: Output) -> None:
    """Let a key in no more: by its id that one, by its name all that have it.

    Services know it within five seconds.
    """
    asyncio.run(_revoke_key(key, db, output))


def _key_sentence(key: Key) -> str:
    """Describe a key in one sentence."""
    tenant = f", for the tenant {key.tenant} alone" if key.tenant else ""
    until = f", until {format_time(key.expires_at)} UTC" if key.expires_at else ""
    return f"The key {key.name} may {', '.join(key.scopes)}{tenant}{until}."


def _keys_table(keys: Sequence[Key], width: int) -> RenderableType:
    if not keys:
        return tables.empty_text(
            "There are no keys. Make one: penstock keys create NAME --scope read"
        )
    now = datetime.now(UTC)
    builder = tables.TableBuilder(width, fills=False)
    builder.column("key", max_width=max(16, width // 4))
    builder.column("id")
    builder.column("may")
    builder.column("tenant", needed=any(key.tenant for key in keys))
    builder.column("last used (UTC)")
    builder.column("")
    for key in keys:
        last_used = format_time(key.last_used_at) if key.last_used_at else "never"
        builder.row(
            key.name,
            Text(key.id, tables.FAINT),
            ", ".join(key.scopes),
            key.tenant or "",
            Text(last_used, "" if key.last_used_at else tables.FAINT),
            _status_text(key, now),
        )
    return builder.table


def _status_text(key: Key, now: datetime) -> Text:
    if key.revoked_at is not None:
        return Text("revoked", tables.FAINT)
    replaced = "replaced, " if key.replaced_by else ""
    if key.expires_at is None:
        return Text(replaced.rstrip(", "))
    seconds_left = (key.expires_at - now).total_seconds()
    if seconds_left <= 0:
        return Text(f"{replaced}expired", tables.FAINT)
    return Text(
        f"{replaced}expires in {format_duration(seconds_left)}",
        "yellow" if seconds_left < 7 * 86_400 else "",
    )


async def _show_keys(all: bool, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        keys = await queue.app.keys(all=all)
    output.show({"keys": keys}, lambda: _keys_table(keys, terminal().width))


async def _create_key(
    name: str,
    scopes: Sequence[Scope],
    tenant: str | None,
    expires: float | None,
    db: DatabaseOptions,
    output: Output,
) -> None:
    async with open_queue(db) as queue:
        new_key = await queue.app.create_key(
            name, scopes=scopes, tenant=tenant, expires=expires, by=current_user()
        )
    _print_secret(new_key, output)


async def _rotate_key(
    key: str, overlap: float, expires: float | None, db: DatabaseOptions, output: Output
) -> None:
    async with open_queue(db) as queue:
        new_key = await queue.app.rotate_key(
            key, overlap=overlap, expires=expires, by=current_user()
        )
    _print_secret(new_key, output)


async def _revoke_key(key: str, db: DatabaseOptions, output: Output) -> None:
    async with open_queue(db) as queue:
        revoked = await queue.app.revoke_key(key, by=current_user())
    output.show(
        {"revoked": revoked}, lambda: f"The key {key} is revoked, and no longer gives access."
    )


def _print_secret(new_key: NewKey, output: Output) -> None:
    """Print the secret on stdout, with a warning that it is shown only once."""
    output.show(new_key, lambda: new_key.secret)
    say(f"{_key_sentence(new_key.key)} It is shown this once: keep it where secrets are kept.")
