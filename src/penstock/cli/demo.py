"""`penstock demo`: thousands of jobs, a worker that is killed, and nothing lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# The numbers of the plan, whose module would bring asyncpg and all with it.
JOBS = 4012
FEWEST = 50
FOLDER = Path(".penstock-demo")

Jobs = Annotated[int, typer.Option(min=FEWEST, max=100_000, help="How many jobs to run.")]
FolderOption = Annotated[
    Path,
    typer.Option("--folder", help="Where its Postgres, the workers' log and the picture are kept."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON document.")]


def demo(jobs: Jobs = JOBS, folder: FolderOption = FOLDER, as_json: AsJson = False) -> None:
    """See it work: jobs of several kinds on a Postgres of its own, in half a minute.

    Some are quick, some slow, some run in threads, fail and are tried again, or go to sleep. One
    kills its worker, and another worker rescues what that one had. The exit code is 1 unless every
    job ended as it should.

    \b
    penstock demo
    penstock demo --jobs 300 --json
    """
    import asyncio
    import json
    import sys

    from rich.console import Console

    from penstock.demo import run_demo
    from penstock.demo.plan import Plan
    from penstock.demo.screen import LiveScreen, PlainScreen
    from penstock.demo.stage import Folder

    console = Console(stderr=as_json)
    screen = LiveScreen(console) if console.is_terminal else PlainScreen(console.file)
    typer.echo("Starting Postgres …", err=True)
    ended = asyncio.run(run_demo(Plan(jobs), Folder(folder), screen))
    typer.echo(json.dumps(ended.as_dict()) if as_json else str(ended))
    sys.exit(0 if ended.is_as_expected else 1)
