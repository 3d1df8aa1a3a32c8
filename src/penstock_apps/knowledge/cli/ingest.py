"""The command `penstock ingest`, which adds files and folders to a knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.framework import Exit, examples, expand_options
from penstock.cli.options import DatabaseOptions
from penstock.cli.output import Output
from penstock_apps.knowledge.cli.options import (
    DEFAULT_TENANT,
    BaseName,
    Effort,
    Tenant,
    expect_knowledge,
    name,
)


@examples(
    "penstock ingest handbook/",
    "penstock ingest *.pdf notes.md --base research --tag 2026",
    "penstock ingest handbook/ --tenant acme --json",
    "penstock ingest handbook/ --no-work",
    "penstock ingest handbook/ --prune",
)
@expand_options
def ingest(
    *,
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", help="Files, and folders with all that is below them."),
    ],
    tenant: Tenant = DEFAULT_TENANT,
    base: BaseName = DEFAULT_TENANT,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            parser=name, metavar="TAG", help="To search by; may be repeated.", show_default=False
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Try those too that were skipped before, as images are without OCR."
        ),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Delete documents whose files are gone from these folders."),
    ] = False,
    follow_links: Annotated[
        bool,
        typer.Option(
            "--follow-links", help="Take in what links in these folders lead to elsewhere, too."
        ),
    ] = False,
    effort: Effort,
    where: DatabaseOptions,
    output: Output,
) -> None:
    """Take files in, so that what is in them can be found.

    What has not changed since the last time is left alone, and of what has, only the changed parts
    are embedded again. What is gone from a folder stays in the knowledge base, unless --prune is
    given; nothing is pruned of a folder that is empty or could not be read as a whole. Hidden files
    and folders, __pycache__ and node_modules are left out, unless they are named. Links that lead
    out of their folder are left out as well, unless --follow-links is given. The exit code is 3 if
    some files failed.
    """
    expect_knowledge()

    import logging

    from penstock import Penstock
    from penstock.cli.database import explain_database_errors
    from penstock.cli.process import run_interruptible
    from penstock_apps.knowledge.cli.files import FileSearch
    from penstock_apps.knowledge.cli.ingest_run import IngestOptions, run_ingest
    from penstock_apps.knowledge.cli.progress import INTERRUPTED, screen_for

    # The summary at the end lists what failed, with the reasons.
    logging.getLogger("penstock.worker").setLevel(logging.CRITICAL)
    files = FileSearch(paths, follow_links=follow_links)
    app = Penstock()
    where.apply_to(app)
    with explain_database_errors(app.database), screen_for(output) as screen:
        ingest_options = IngestOptions(
            tenant=tenant,
            base=base,
            tags=tuple(tag or ()),
            works_here=effort.works_here,
            waits=effort.wait,
            again=again,
            prunes=prune,
            children=effort.children,
        )
        summary = run_interruptible(run_ingest(app, files, ingest_options, screen), INTERRUPTED)
    output.show(summary.as_document(), lambda: str(summary))
    raise typer.Exit(Exit.NO if summary.failed else Exit.OK)
