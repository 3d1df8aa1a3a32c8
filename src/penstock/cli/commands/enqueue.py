"""`penstock enqueue`: enqueue one job, or one for each line of standard input."""

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

from penstock.cli.database import OpenQueue, explain_database_errors
from penstock.cli.errors import Interrupted, LineRefused, Unfinished
from penstock.cli.follow import exit_of_job, follow_to_end, print_job
from penstock.cli.framework import examples, expand_options
from penstock.cli.options import DatabaseOptions, parse_duration, parse_time
from penstock.cli.output import Output, say, terminal
from penstock.cli.requests import (
    MakeRequest,
    Values,
    open_queue_and_requests,
    parse_json_object,
    request_from_line,
)
from penstock.cli.tables import format_duration
from penstock.connect.enqueue import Enqueued
from penstock.errors import PenstockError
from penstock.tasks import Request
from penstock.tasks.unique import OnConflict, Unique
from penstock.wording import counted

JOB_PANEL = "How to run it"
STDIN = "-"

# A blocking read would miss a Ctrl-C that arrived just before it, so reads wait this long at most.
POLL_INTERVAL_S = 0.2
CHUNK_BYTES = 65_536
MAX_JOBS_PER_BATCH = 1000


def _job_option(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, show_default=False, rich_help_panel=JOB_PANEL, **more)


@dataclass(frozen=True)
class JobOptions:
    """The arguments of `task.options(…)` as options of the command line."""

    queue: Annotated[str | None, _job_option("The queue; the task's own, or default.")] = None
    priority: Annotated[int | None, _job_option("-100 to 100; higher runs first.")] = None
    delay: Annotated[
        float | None,
        _job_option("Run it so much later.", parser=parse_duration, metavar="DURATION"),
    ] = None
    run_at: Annotated[
        datetime | None, _job_option("Run it then.", "--at", parser=parse_time, metavar="TIME")
    ] = None
    tenant: Annotated[str | None, _job_option("Whose job it is.")] = None
    subject: Annotated[str | None, _job_option("What it is about, such as document:42.")] = None
    tags: Annotated[
        list[str] | None, _job_option("A tag; may be repeated.", "--tag", metavar="TAG")
    ] = None
    max_attempts: Annotated[int | None, _job_option("How often to try, at most.")] = None
    timeout: Annotated[
        float | None,
        _job_option("How long one attempt may take.", parser=parse_duration, metavar="DURATION"),
    ] = None
    deadline: Annotated[
        datetime | None,
        _job_option("Give up what has not begun by then.", parser=parse_time, metavar="TIME"),
    ] = None
    requested_by: Annotated[str | None, _job_option("Who asked for it.")] = None
    idempotency_key: Annotated[
        str | None, _job_option("Asking again with this key adds nothing.")
    ] = None
    unique_key: Annotated[
        str | None, _job_option("Only one job of this key at a time; {name} becomes an argument.")
    ] = None
    on_conflict: Annotated[
        OnConflict | None,
        _job_option("What if there is one: skip (and tell which), replace, supersede, raise."),
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the options that the user gave, as keyword arguments for `task.options(…)`."""
        values = {name: value for name, value in vars(self).items() if value is not None}
        key, on_conflict = values.pop("unique_key", None), values.pop("on_conflict", "skip")
        if key is not None:
            return values | {"unique": Unique(key=key, on_conflict=on_conflict)}
        if self.on_conflict is not None:
            raise typer.BadParameter("--on-conflict can only be used with --unique-key")
        return values


@examples(
    """penstock enqueue shop.greet '{"name": "Ada"}'""",
    """penstock enqueue shop.greet '{"name": "Ada"}' --queue mail --delay 10m --priority 5""",
    """penstock enqueue shop.greet '{"name": "Ada"}' --idempotency-key greet-ada --json""",
    """penstock enqueue shop.greet '{"name": "Ada"}' --unique-key '{name}' --on-conflict replace""",
    """penstock enqueue shop.greet '{"name": "Ada"}' --app shop --wait --wait-timeout 30s""",
    """printf '{"name": "Ada"}\\n{"name": "Bo"}\\n' | penstock enqueue shop.greet -""",
    """echo '{"task": "shop.greet", "args": {"name": "Ada"}, "delay": 60}' | penstock enqueue -""",
)
@expand_options
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
            parser=parse_duration,
            metavar="DURATION",
            help="With --wait: the longest.",
            show_default=False,
        ),
    ] = None,
    options: JobOptions,
    db: DatabaseOptions,
    output: Output,
) -> None:
    """Enqueue a job, or many.

    A task's name is enough: no code of yours is needed. From standard input come many, one JSON
    object a line, stored in batches of 1,000.
    """
    many = STDIN in (task, args)
    if many and (wait or options.idempotency_key):
        raise typer.BadParameter(
            "--wait and --idempotency-key can only be used with a single job, not with jobs from "
            "standard input"
        )
    if wait_timeout is not None and not wait:
        raise typer.BadParameter("--wait-timeout can only be used with --wait")
    if many:
        named = None if task == STDIN else task
        asyncio.run(_enqueue_lines(named, app, options.values(), db, output))
    else:
        patience = (wait, wait_timeout)
        asyncio.run(_enqueue_one(task, args, app, options.values(), db, output, patience))


async def read_lines(stream: IO[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield each line of a file, a pipe or a terminal, without its newline."""
    descriptor, partial_line = stream.fileno(), bytearray()
    while chunk := await _read_chunk(descriptor):
        partial_line += chunk
        if b"\n" in chunk:
            *complete_lines, partial_line = partial_line.split(b"\n")
            for line in complete_lines:
                yield bytes(line)
    if partial_line:
        yield bytes(partial_line)


async def _read_chunk(descriptor: int) -> bytes:
    """Wait for input, and return the available bytes, or empty bytes at the end of the input."""
    # The event loop cannot watch a regular file, and a thread that reads cannot be stopped.
    while True:
        ready, _, _ = select.select([descriptor], [], [], POLL_INTERVAL_S)
        await asyncio.sleep(0)
        if ready:
            return os.read(descriptor, CHUNK_BYTES)


async def _enqueue_one(
    task: str,
    args: str,
    target: str | None,
    values: Values,
    db: DatabaseOptions,
    output: Output,
    waiting: tuple[bool, float | None],
) -> None:
    """Enqueue a job and print its id. With --wait, also wait for its end and print the job."""
    wait, timeout = waiting
    arguments = parse_json_object(args, "The text of the arguments")
    async with open_queue_and_requests(target, db) as (queue, make):
        request = make(task, arguments, values)
        queue = queue.for_tenant(request.options.tenant)
        [job] = await queue.client.enqueue_many([request])
        if not wait:
            output.show(job, lambda: _describe_job(job, request))
            return
        if not output.as_json:
            say(_describe_job(job, request))
        try:
            job_state = await follow_to_end(queue, job.id, timeout)
        except asyncio.CancelledError:
            message = f"The command no longer waits for job {job.id}. The job itself goes on."
            raise Interrupted(message, id=job.id) from None
    print_job(job_state, output)
    raise typer.Exit(exit_of_job(job_state))


async def _enqueue_lines(
    task: str | None, target: str | None, values: Values, db: DatabaseOptions, output: Output
) -> None:
    """Enqueue a job for each line of stdin, in batches."""
    jobs: list[Enqueued[Any]] = []
    async with open_queue_and_requests(target, db) as (queue, make):
        requests = _parse_requests(read_lines(sys.stdin.buffer), task, values, make)
        with _report_partial_progress(jobs), terminal(stderr=True).status("…") as status:
            while batch := await _next_batch(requests):
                for tenant, requests_of in _group_by_tenant(queue, batch):
                    with explain_database_errors(queue.app.database):
                        client = queue.for_tenant(tenant).client
                        jobs += await client.enqueue_many(requests_of)
                status.update(f"{counted(len(jobs), 'job')} …")
    duplicates = sum(job.duplicate for job in jobs)
    document = {
        "enqueued": len(jobs) - duplicates,
        "duplicates": duplicates,
        "ids": [job.id for job in jobs],
    }
    output.show(document, lambda: _describe_counts(len(jobs) - duplicates, duplicates))


def _group_by_tenant(
    queue: OpenQueue, batch: Sequence[Request[Any]]
) -> Iterator[tuple[str, list[Request[Any]]]]:
    """Yield the whole batch or, under row level security, each run of requests of one tenant."""
    if not queue.rights.is_confined:
        yield "", list(batch)
        return
    for tenant, requests in groupby(batch, key=lambda request: request.options.tenant):
        yield tenant, list(requests)


async def _parse_requests(
    lines: AsyncIterator[bytes], task: str | None, values: Values, make: MakeRequest
) -> AsyncIterator[Request[Any]]:
    number = 0
    async for line in lines:
        number += 1
        if not line.strip():
            continue
        try:
            fields = parse_json_object(line, "It")
            yield (
                request_from_line(fields, values, make)
                if task is None
                else make(task, fields, values)
            )
        except (PenstockError, typer.BadParameter) as error:
            raise LineRefused(number, error) from error


async def _next_batch(requests: AsyncIterator[Request[Any]]) -> list[Request[Any]]:
    """Read the next batch of requests.

    Ctrl-C raises `KeyboardInterrupt` here instead of `CancelledError`, so that the caller knows
    that no batch was being stored.
    """
    batch: list[Request[Any]] = []
    try:
        async for request in requests:
            batch.append(request)
            if len(batch) == MAX_JOBS_PER_BATCH:
                break
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return batch


@contextmanager
def _report_partial_progress(jobs: Sequence[Enqueued[Any]]) -> Iterator[None]:
    """After an error or Ctrl-C, raise an error that says how many jobs were enqueued before."""

    def stored() -> dict[str, Any]:
        return {"enqueued": len(jobs), "ids": [job.id for job in jobs]}

    try:
        yield
    except PenstockError as error:
        raise Unfinished(f"{error} {_describe_stored(len(jobs))}", **stored()) from error
    except KeyboardInterrupt:
        raise Interrupted(_describe_stored(len(jobs)), **stored()) from None
    except asyncio.CancelledError:
        stored_jobs = _describe_stored(len(jobs))
        message = (
            f"{stored_jobs} Another group of jobs was being sent, and may have been enqueued as "
            "well."
        )
        raise Interrupted(message, **stored()) from None


def _describe_stored(stored: int) -> str:
    if not stored:
        return "Nothing was enqueued."
    return f"The first {counted(stored, 'job')} had been enqueued by then."


def _describe_job(job: Enqueued[Any], request: Request[Any]) -> str:
    if job.duplicate:
        unique = request.options.unique
        key = request.options.idempotency_key or (unique and unique.key)
        return f"Nothing was enqueued: the key {key} belongs to job {job.id}."
    due = f", due in {format_duration(request.options.delay)}" if request.options.delay else ""
    return f"Job {job.id} was enqueued: {request.task} in the queue {request.options.queue}{due}."


def _describe_counts(enqueued: int, duplicates: int) -> str:
    left_out = f", {counted(duplicates, 'duplicate')} left out" if duplicates else ""
    return f"{counted(enqueued, 'job')} {'was' if enqueued == 1 else 'were'} enqueued{left_out}."
