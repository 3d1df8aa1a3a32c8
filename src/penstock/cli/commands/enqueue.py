"""`penstock enqueue`: a job from arguments, or many from the lines of standard input."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import IO, Annotated, Any

import typer

from penstock.cli.database import Reached, plain_errors
from penstock.cli.errors import Interrupted, LineRefused, Unfinished
from penstock.cli.follow import exit_of_job, print_job, until_ended
from penstock.cli.framework import examples, spread
from penstock.cli.options import Where, moment, seconds
from penstock.cli.output import Output, say, terminal
from penstock.cli.requests import MakeRequest, Values, from_line, object_from, reached_making
from penstock.cli.tables import length
from penstock.connect.enqueue import Enqueued
from penstock.errors import PenstockError
from penstock.tasks import Request
from penstock.tasks.unique import OnConflict, Unique
from penstock.wording import counted

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
    many = STDIN in (task, args)
    if many and (wait or options.idempotency_key):
        raise typer.BadParameter("--wait and --idempotency-key are for a single job")
    if wait_timeout is not None and not wait:
        raise typer.BadParameter("--wait-timeout goes with --wait")
    if many:
        named = None if task == STDIN else task
        asyncio.run(_enqueue_lines(named, app, options.values(), where, output))
    else:
        patience = (wait, wait_timeout)
        asyncio.run(_enqueue_one(task, args, app, options.values(), where, output, patience))


# A read that blocks does not notice a Ctrl-C that came in the moment before it: so often we look.
LOOK = 0.2
CHUNK = 65_536


async def lines(stream: IO[bytes]) -> AsyncGenerator[bytes, None]:
    """Each line of a file, a pipe or a terminal, without its end."""
    descriptor, begun = stream.fileno(), bytearray()
    while chunk := await _chunk(descriptor):
        begun += chunk
        if b"\n" in chunk:
            *whole, begun = begun.split(b"\n")
            for line in whole:
                yield bytes(line)
    if begun:
        yield bytes(begun)


async def _chunk(descriptor: int) -> bytes:
    """What there is to read; empty at the end."""
    # A descriptor of a file cannot be given to the loop, and a thread that reads cannot be ended.
    while True:
        ready, _, _ = select.select([descriptor], [], [], LOOK)
        await asyncio.sleep(0)
        if ready:
            return os.read(descriptor, CHUNK)


BATCH = 1000


async def _enqueue_one(
    task: str,
    args: str,
    target: str | None,
    values: Values,
    where: Where,
    output: Output,
    patience: tuple[bool, float | None],
) -> None:
    """Enqueue a job, and wait for its end if that is wanted."""
    wait, timeout = patience
    arguments = object_from(args, "What is given as arguments")
    async with reached_making(target, where) as (queue, make):
        request = make(task, arguments, values)
        queue = queue.for_tenant(request.options.tenant)
        [job] = await queue.client.enqueue_many([request])
        if not wait:
            output.show(job, lambda: _told(job, request))
            return
        if not output.as_json:
            say(_told(job, request))
        try:
            seen = await until_ended(queue, job.id, timeout)
        except asyncio.CancelledError:
            told = f"Job {job.id} is no longer waited for; it goes on regardless."
            raise Interrupted(told, id=job.id) from None
    print_job(seen, output)
    raise typer.Exit(exit_of_job(seen))


async def _enqueue_lines(
    task: str | None, target: str | None, values: Values, where: Where, output: Output
) -> None:
    """Enqueue a job for each line of stdin, a batch at a time."""
    jobs: list[Enqueued[Any]] = []
    async with reached_making(target, where) as (queue, make):
        requests = _requests(lines(sys.stdin.buffer), task, values, make)
        with _telling_of(jobs), terminal(stderr=True).status("…") as status:
            while batch := await _read(requests):
                for tenant, requests_of in _by_tenant(queue, batch):
                    with plain_errors(queue.app.database):
                        client = queue.for_tenant(tenant).client
                        jobs += await client.enqueue_many(requests_of)
                status.update(f"{counted(len(jobs), 'job')} …")
    duplicates = sum(job.duplicate for job in jobs)
    document = {
        "enqueued": len(jobs) - duplicates,
        "duplicates": duplicates,
        "ids": [job.id for job in jobs],
    }
    output.show(document, lambda: _counted(len(jobs) - duplicates, duplicates))


def _by_tenant(
    queue: Reached, batch: Sequence[Request[Any]]
) -> Iterator[tuple[str, list[Request[Any]]]]:
    """The batch at once, or a tenant after the other where row level security has it so."""
    if not queue.rights.is_confined:
        yield "", list(batch)
        return
    for tenant, requests in groupby(batch, key=lambda each: each.options.tenant):
        yield tenant, list(requests)


async def _requests(
    given: AsyncIterator[bytes], task: str | None, values: Values, make: MakeRequest
) -> AsyncIterator[Request[Any]]:
    number = 0
    async for line in given:
        number += 1
        if not line.strip():
            continue
        try:
            read = object_from(line, "It")
            yield from_line(read, values, make) if task is None else make(task, read, values)
        except (PenstockError, typer.BadParameter) as error:
            raise LineRefused(number, error) from error


async def _read(requests: AsyncIterator[Request[Any]]) -> list[Request[Any]]:
    """The next batch. Who interrupts this is told that nothing is on its way."""
    batch: list[Request[Any]] = []
    try:
        async for request in requests:
            batch.append(request)
            if len(batch) == BATCH:
                break
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return batch


@contextmanager
def _telling_of(jobs: Sequence[Enqueued[Any]]) -> Iterator[None]:
    """Whatever ends it midway says what had been enqueued by then."""

    def stored() -> dict[str, Any]:
        return {"enqueued": len(jobs), "ids": [job.id for job in jobs]}

    try:
        yield
    except PenstockError as error:
        raise Unfinished(f"{error} {_before(len(jobs))}", **stored()) from error
    except KeyboardInterrupt:
        raise Interrupted(_before(len(jobs)), **stored()) from None
    except asyncio.CancelledError:
        told = f"{_before(len(jobs))} A batch was on its way, and may have been enqueued as well."
        raise Interrupted(told, **stored()) from None


def _before(stored: int) -> str:
    if not stored:
        return "Nothing was enqueued."
    return f"The first {counted(stored, 'job')} had been enqueued by then."


def _told(job: Enqueued[Any], request: Request[Any]) -> str:
    if job.duplicate:
        unique = request.options.unique
        key = request.options.idempotency_key or (unique and unique.key)
        return f"Nothing was enqueued: the key {key} belongs to job {job.id}."
    due = f", due in {length(request.options.delay)}" if request.options.delay else ""
    return f"Job {job.id} was enqueued: {request.task} in the queue {request.options.queue}{due}."


def _counted(enqueued: int, duplicates: int) -> str:
    again = f", {counted(duplicates, 'duplicate')} left out" if duplicates else ""
    return f"{counted(enqueued, 'job')} {'was' if enqueued == 1 else 'were'} enqueued{again}."
