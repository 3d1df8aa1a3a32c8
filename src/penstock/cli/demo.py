"""`penstock demo`: thousands of jobs, a worker that is killed, and nothing lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.commands import examples
from penstock.cli.exits import Exit
from penstock.cli.output import Output, say
from penstock.cli.spread import spread

# The numbers of the plan, whose module would bring asyncpg and all with it.
JOBS = 4012
FEWEST = 50
FOLDER = Path(".penstock-demo")

Jobs = Annotated[int, typer.Option(min=FEWEST, max=100_000, help="How many jobs to run.")]
FolderOption = Annotated[
    Path,
    typer.Option("--folder", help="Where its Postgres, the workers' log and the picture are kept."),
]


@examples("penstock demo", "penstock demo --jobs 300 --json")
@spread
def demo(*, jobs: Jobs = JOBS, folder: FolderOption = FOLDER, output: Output) -> None:
    """See it work, in half a minute.

    Jobs of several kinds run on a Postgres of its own. Some are quick, some slow, some run in
    threads, fail and are tried again, or go to sleep. One kills its worker, and another worker
    rescues what that one had. The exit code is 1 unless every job ended as it should.
    """
    import asyncio

    from rich.console import Console

    from penstock.demo import run_demo
    from penstock.demo.screen import LiveScreen, PlainScreen
    from penstock.demo.stage import Folder, Plan

    console = Console(stderr=output.as_json)
    screen = LiveScreen(console) if console.is_terminal else PlainScreen(console.file)
    say("Starting Postgres …")
    summary = asyncio.run(run_demo(Plan(jobs), Folder(folder), screen))
    output.show(summary.as_dict(), lambda: str(summary))
    raise typer.Exit(Exit.OK if summary.is_as_expected else Exit.ERROR)
