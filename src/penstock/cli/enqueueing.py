"""What `penstock enqueue` does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import groupby
from typing import Any

import typer

from penstock.cli.errors import Interrupted, LineRefused, Unfinished
from penstock.cli.lines import lines
from penstock.cli.opening import Reached, plain_errors, reached_by, visited
from penstock.cli.output import Output, say, terminal
from penstock.cli.requests import (
    MakeRequest,
    Values,
    by_name,
    checked_by,
    from_line,
    object_from,
)
from penstock.cli.showing import exit_of_job, show, until_ended
from penstock.cli.target import find_app
from penstock.cli.where import Where
from penstock.cli.words import length
from penstock.connect.enqueue import Enqueued
from penstock.errors import PenstockError
from penstock.tasks import Request
from penstock.wording import counted

BATCH = 1000


async def enqueue_one(
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
    show(seen, output)
    raise typer.Exit(exit_of_job(seen))


async def enqueue_lines(
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


@asynccontextmanager
async def reached_making(
    target: str | None, where: Where
) -> AsyncIterator[tuple[Reached, MakeRequest]]:
    """The queue, and how requests for it are made: by the app's code if one is named."""
    if target is None:
        async with visited(where) as queue:
            yield queue, by_name
        return
    app = find_app(target)
    where.lead(app)
    async with reached_by(app) as queue:
        yield queue, checked_by(app)


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
