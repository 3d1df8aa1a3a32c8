"""`python -m benchmarks.before_after --help`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.before_after.commit import checked_out, is_known, present
from benchmarks.before_after.document import BeforeAfter, Sides
from benchmarks.before_after.scenes import SCENES, Scene
from benchmarks.before_after.table import tables
from benchmarks.before_after.verdict import judged
from benchmarks.comparison.environment import CannotInstall
from benchmarks.comparison.plan import Plan
from benchmarks.comparison.postgres import server
from penstock.bench.child import BenchFailed
from penstock.bench.report import LiveLine
from penstock.worker.processes import run

WIDTH = 130
# What every change is compared with: ratios of one change after the other would multiply.
BASE = "a959319"
QUICK_JOBS = 1_000


def main(
    before: Annotated[str, typer.Option(help="The commit to compare with.")] = BASE,
    now: Annotated[
        str | None,
        typer.Option(help="Another commit instead of the files as they are.", show_default=False),
    ] = None,
    scenes: Annotated[str, typer.Option(help="Which scenes, with commas between them.")] = ",".join(
        SCENES
    ),
    rounds: Annotated[int, typer.Option(help="How often; the medians are shown.", min=1)] = 5,
    jobs: Annotated[
        int, typer.Option(help="How many plain jobs a drain works off; others in proportion.")
    ] = 100_000,
    spread: Annotated[
        bool,
        typer.Option(help="Measure the older commit against itself, too."),
    ] = True,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="One round of few jobs: it shows only that both can be driven."
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--json", help="Write one JSON document to this file.")
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            help="A server of your own; its role must be allowed to create databases.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Measure jobs, requests and documents before and after a change.

    The exit code is 3 if the change makes something slower, 4 if this machine cannot tell.
    """
    chosen = _scenes(scenes)
    if quick and not is_known(before):
        typer.echo(f"LEFT OUT: before and after, because {before} is not in this repository.")
        return
    plan = Plan(rounds=rounds, tune=False)
    with (
        _or_exit(),
        checked_out(before) as old,
        checked_out(now) if now else present() as new,
    ):
        if quick:
            run(_drive(Sides(old, new, again=False), chosen, database_url))
            typer.echo(f"{old.name} and {new.name} can be driven and measured: {scenes}.")
            return
        result = run(_measure(Sides(old, new, spread), plan, chosen, jobs, database_url))
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")
    # Where there is no terminal, rich would cut the numbers off at 80 columns.
    console = Console(width=max(Console().width, WIDTH), highlight=False)
    console.print(*tables(result), sep="\n")
    raise typer.Exit(result["verdict"].exit_code)


@contextmanager
def _or_exit() -> Iterator[None]:
    """What cannot be driven ends the run, with what is probably to be done about it."""
    try:
        yield
    except (BenchFailed, CannotInstall) as error:
        hint = "If a public name has changed, see benchmarks/before_after/adapters/__init__.py."
        raise SystemExit(f"{error} {hint}") from error


def _scenes(names: str) -> list[Scene]:
    for name in names.split(","):
        if name not in SCENES:
            raise typer.BadParameter(f"There is no scene {name!r}; there are {', '.join(SCENES)}.")
    return [SCENES[name] for name in names.split(",")]


async def _measure(
    sides: Sides, plan: Plan, scenes: list[Scene], jobs: int, database_url: str | None
) -> dict[str, Any]:
    async with server(database_url) as postgres:
        return judged(await BeforeAfter(postgres, plan, LiveLine(), sides).measure(scenes, jobs))


async def _drive(sides: Sides, scenes: list[Scene], database_url: str | None) -> None:
    plan = Plan(rounds=1, tune=False, copies=False)
    async with server(database_url) as postgres:
        driving = BeforeAfter(postgres, plan, LiveLine(), sides, together=True)
        await driving.measure([scene.quick() for scene in scenes], QUICK_JOBS)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
