"""Looking at what was enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from penstock.client import Client
from penstock.job import BLOCKED, READY, SCHEDULED, Job, State
from penstock.tasks import Task
from penstock.testing.expectation import Expectation, Traits, listing

WAITING: tuple[State, ...] = (SCHEDULED, READY, BLOCKED)
PAGE = 1000

AnyTask = Task[..., Any]


async def enqueued(
    client: Client,
    task: AnyTask | str | None = None,
    args: Mapping[str, Any] | None = None,
    **traits: Unpack[Traits],
) -> list[Job]:
    """The jobs that wait to be run, oldest first; of a task, with arguments, with traits.

    [job] = await enqueued(app, send_invoice, {"order": 42}, queue="mail")
    """
    expectation = Expectation(task, {} if args is None else args, traits)
    return [job for job in await _waiting(client) if not expectation.differences(job)]


async def assert_enqueued(
    client: Client,
    task: AnyTask | str | None = None,
    args: Mapping[str, Any] | None = None,
    *,
    count: int | None = None,
    **traits: Unpack[Traits],
) -> list[Job]:
    """Fail unless such jobs wait: at least one, or as many as `count`. The jobs.

        await assert_enqueued(app, send_invoice, {"order": 42}, delay=timedelta(hours=1))

    What is not named may be anything. `app.inside(connection)` in place of the app sees what the
    connection's open transaction has enqueued.
    """
    __tracebackhide__ = True
    expectation = Expectation(task, {} if args is None else args, traits)
    waiting = await _waiting(client)
    found = [job for job in waiting if not expectation.differences(job)]
    if not found if count is None else len(found) != count:
        wanted = "Expected a" if count is None else f"Expected {count} times a"
        raise AssertionError(
            f"{wanted} {expectation}; found {len(found) or 'none'}. {listing(waiting, expectation)}"
        )
    return found


async def assert_nothing_enqueued(
    client: Client,
    task: AnyTask | str | None = None,
    args: Mapping[str, Any] | None = None,
    **traits: Unpack[Traits],
) -> None:
    """Fail if such jobs wait; without a task and the rest, if any do.

    await assert_nothing_enqueued(app)
    """
    __tracebackhide__ = True
    expectation = Expectation(task, {} if args is None else args, traits)
    found = [job for job in await _waiting(client) if not expectation.differences(job)]
    if found:
        raise AssertionError(f"Expected no {expectation}. {listing(found, expectation)}")


async def _waiting(client: Client) -> list[Job]:
    jobs: list[Job] = []
    after: str | None = None
    while True:
        page = await client.list(state=WAITING, after=after, limit=PAGE)
        jobs.extend(page.jobs)
        if page.after is None:
            return jobs[::-1]
        after = page.after
