"""`penstock keys`: what lets programs into the service."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.commands import Command, examples, group
from penstock.cli.duration import seconds
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where

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
    from penstock.cli.access import show_keys

    asyncio.run(show_keys(all, where, output))


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
    from penstock.cli.access import create_key

    asyncio.run(create_key(name, [each.value for each in scope], tenant, expires, where, output))


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
    from penstock.cli.access import rotate_key

    asyncio.run(rotate_key(key, overlap, expires, where, output))


@app.command("revoke", cls=Command)
@examples("penstock keys revoke ci")
@spread
def revoke_key(key: Which, where: Where, output: Output) -> None:
    """Let a key in no more: by its id that one, by its name all that have it.

    Services know it within five seconds.
    """
    from penstock.cli.access import revoke_key

    asyncio.run(revoke_key(key, where, output))
