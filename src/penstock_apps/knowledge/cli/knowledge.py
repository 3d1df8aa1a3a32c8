"""`penstock knowledge`: list, retry and delete what was ingested."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import typer

from penstock.cli.framework import Command, Exit, examples, expand_options, group
from penstock.cli.options import DatabaseOptions
from penstock.cli.output import Output
from penstock_apps.knowledge.cli.options import (
    DEFAULT_TENANT,
    Effort,
    PageOptions,
    Tenant,
    expect_knowledge,
)

app = group("knowledge", help="Look at bases, sources and documents, retry and delete them.")

Within = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="NAME",
        help="Only this knowledge base, by name or id.",
        show_default=False,
    ),
]
SourceName = Annotated[
    str, typer.Argument(metavar="SOURCE", help="The source by its id, its name or its folder.")
]


@app.command("bases", cls=Command)
@examples("penstock knowledge bases --json")
@expand_options
def list_bases(
    *, tenant: Tenant = DEFAULT_TENANT, base: Within = None, where: DatabaseOptions, output: Output
) -> None:
    """List knowledge bases, and what they have."""
    expect_knowledge()
    from penstock_apps.knowledge.cli.catalog import show_bases

    asyncio.run(show_bases(tenant, base, where, output))


@app.command("sources", cls=Command)
@examples("penstock knowledge sources --base manuals", "penstock knowledge sources --state partial")
@expand_options
def list_sources(
    *,
    tenant: Tenant = DEFAULT_TENANT,
    base: Within = None,
    state: Annotated[
        Literal["processing", "completed", "partial", "skipped", "failed", "cancelled"] | None,
        typer.Option(
            help="Only those in this state; partial: some of it failed or was cancelled.",
            show_default=False,
        ),
    ] = None,
    page: PageOptions,
    where: DatabaseOptions,
    output: Output,
) -> None:
    """List folders, uploads and URLs, newest first.

    What came of the documents of each is its state.
    """
    expect_knowledge()
    from penstock_apps.knowledge.cli.catalog import show_sources

    asyncio.run(show_sources(tenant, base, state, page, where, output))


@app.command("documents", cls=Command)
@examples(
    "penstock knowledge documents --state failed",
    "penstock knowledge documents --source handbook --limit 10 --json",
)
@expand_options
def list_documents(
    *,
    tenant: Tenant = DEFAULT_TENANT,
    base: Within = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Only this source, by id, name or folder.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        Literal["pending", "processing", "completed", "skipped", "failed", "cancelled"] | None,
        typer.Option(help="Only those in this state.", show_default=False),
    ] = None,
    page: PageOptions,
    where: DatabaseOptions,
    output: Output,
) -> None:
    """List documents, and why some did not go in."""
    expect_knowledge()
    from penstock_apps.knowledge.cli.catalog import show_documents

    asyncio.run(show_documents(tenant, base, source, state, page, where, output))


@app.command("retry", cls=Command)
@examples("penstock knowledge retry handbook")
@expand_options
def retry(
    *,
    source: SourceName,
    tenant: Tenant = DEFAULT_TENANT,
    base: Within = None,
    effort: Effort,
    where: DatabaseOptions,
    output: Output,
) -> None:
    """Bring in what failed in a source once more.

    That, what was cancelled, and nothing else. The exit code is 3 if some of it failed again.
    """
    expect_knowledge()
    from penstock_apps.knowledge.cli.ingest_run import retry_source

    failed = retry_source(source, tenant, base, effort, where, output)
    raise typer.Exit(Exit.NO if failed else Exit.OK)


@app.command("delete", cls=Command)
@examples(
    "penstock knowledge delete document keys.md --yes",
    "penstock knowledge delete base research --yes",
)
@expand_options
def delete(
    *,
    what: Annotated[Literal["document", "source", "base"], typer.Argument(help="What it is.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID|NAME", help="Its id; or its name, a document's path, a source's folder."
        ),
    ],
    tenant: Tenant = DEFAULT_TENANT,
    base: Within = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    where: DatabaseOptions,
    output: Output,
) -> None:
    """Delete a document, a source or a base.

    All that is in it goes with it. It is found no more at once; a worker removes what is left.
    """
    expect_knowledge()
    from penstock_apps.knowledge.cli.catalog import delete_named

    delete_named(what, name, tenant, base, where, output, yes=yes)
