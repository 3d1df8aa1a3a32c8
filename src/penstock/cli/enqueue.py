"""`penstock enqueue`: jobs from the terminal, one or many."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from penstock.cli.commands import examples
from penstock.cli.duration import seconds
from penstock.cli.moment import moment
from penstock.cli.output import Output
from penstock.cli.spread import spread
from penstock.cli.where import Where
from penstock.tasks.unique import OnConflict, Unique

PANEL = "How to run it"
STDIN = "-"


def _option(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, show_default=False, rich_help_panel=PANEL, **more)


@dataclass(frozen=True)
class JobOptions:
    """What `task.options(...)` takes, as the command line has it."""

    queue: Annotated[str | None, _option("The queue; the task's own, or default.")] = None
    priority: Annotated[int | None, _option("-100 to 100; higher runs first.")] = None
    delay: Annotated[
        float | None, _option("Run it so much later.", parser=seconds, metavar="DURATION")
    ] = None
    run_at: Annotated[
        datetime | None, _option("Run it then.", "--at", parser=moment, metavar="TIME")
    ] = None
    tenant: Annotated[str | None, _option("Whose job it is.")] = None
    subject: Annotated[str | None, _option("What it is about, such as document:42.")] = None
    tags: Annotated[
        list[str] | None, _option("A tag; may be repeated.", "--tag", metavar="TAG")
    ] = None
    max_attempts: Annotated[int | None, _option("How often to try, at most.")] = None
    timeout: Annotated[
        float | None, _option("How long one attempt may take.", parser=seconds, metavar="DURATION")
    ] = None
    deadline: Annotated[
        datetime | None,
        _option("Give up what has not begun by then.", parser=moment, metavar="TIME"),
    ] = None
    requested_by: Annotated[str | None, _option("Who asked for it.")] = None
    idempotency_key: Annotated[str | None, _option("Asking again with this key adds nothing.")] = (
        None
    )
    unique_key: Annotated[
        str | None, _option("Only one job of this key at a time; {name} becomes an argument.")
    ] = None
    on_conflict: Annotated[
        OnConflict | None,
        _option("What if there is one: skip (and tell which), replace, supersede, raise."),
    ] = None

    def values(self) -> dict[str, Any]:
        """Those that are given."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        key, on_conflict = given.pop("unique_key", None), given.pop("on_conflict", "skip")
        if key is not None:
            return given | {"unique": Unique(key=key, on_conflict=on_conflict)}
        if self.on_conflict is not None:
            raise typer.BadParameter("--on-conflict goes with --unique-key")
        return given


@examples(
    """penstock enqueue shop.greet '{"name": "Ada"}'""",
    """penstock enqueue shop.greet '{"name": "Ada"}' --queue mail --delay 10m --priority 5""",
    """penstock enqueue shop.greet '{"name": "Ada"}' --idempotency-key greet-ada --json""",
    """penstock enqueue shop.greet '{"name": "Ada"}' --unique-key '{name}' --on-conflict replace""",
    """penstock enqueue shop.greet '{"name": "Ada"}' --app shop --wait --wait-timeout 30s""",
    """printf '{"name": "Ada"}\\n{"name": "Bo"}\\n' | penstock enqueue shop.greet -""",
    """echo '{"task": "shop.greet", "args": {"name": "Ada"}, "delay": 60}' | penstock enqueue -""",
)
@spread
def enqueue(
    *,
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="The task's name, such as shop.jobs.send_invoice; or - to read lines with task, "
            "args and options from standard input.",
        ),
    ],
    args: Annotated[
        str,
        typer.Argument(
            metavar="ARGUMENTS",
            help="The arguments as a JSON object; or - to read one from each line of standard "
            "input.",
        ),
    ] = "{}",
    app: Annotated[
        str | None,
        typer.Option(
            metavar="APP",
            help="Check the arguments against this app's task, take the task's settings, and use "
            "the app's database unless another is given.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for its end and show it; 5 if it failed, 6 if too late."),
    ] = False,
    wait_timeout: Annotated[
        float | None,
        typer.Option(
            parser=seconds, metavar="DURATION", help="With --wait: the longest.", show_default=False
        ),
    ] = None,
    options: JobOptions,
    where: Where,
    output: Output,
) -> None:
    """Enqueue a job, or many.

    A task's name is enough: no code of yours is needed. From standard input come many, one JSON
    object a line, stored in batches of 1,000.
    """
    from penstock.cli.enqueueing import enqueue_lines, enqueue_one

    many = STDIN in (task, args)
    if many and (wait or options.idempotency_key):
        raise typer.BadParameter("--wait and --idempotency-key are for a single job")
    if wait_timeout is not None and not wait:
        raise typer.BadParameter("--wait-timeout goes with --wait")
    if many:
        named = None if task == STDIN else task
        asyncio.run(enqueue_lines(named, app, options.values(), where, output))
    else:
        patience = (wait, wait_timeout)
        asyncio.run(enqueue_one(task, args, app, options.values(), where, output, patience))
