"""Routes for many jobs in one call: enqueue them, read their states, change them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from penstock.app.client import Client
from penstock.errors import ConfigError
from penstock.groups.answers import Acted, ManyEnqueued, States
from penstock.groups.bulk import matching, newest
from penstock.job import FINAL, LIVE, State
from penstock.service.auth import Caller
from penstock.service.dependencies import Enqueuer, Operator, Reader, runtime_of
from penstock.service.enqueue import IdempotencyKey, requests_from, with_idempotency_key
from penstock.service.problems import Problem, raises
from penstock.service.routing import as_json, idempotent, returns
from penstock.service.schemas import Action, AskedStates, NewJobs

PAGE_SIZE: Final = 500
# These bound what one call changes or counts, so that it ends in a few seconds.
MAX_PAGES: Final = 10
MAX_COUNTED: Final = 10_000
CHANGED_STATES: Final = {
    "cancel": {"cancelled"},
    "retry": {"ready", "blocked"},
    "delete": {"deleted"},
}
# An action applies to jobs in these states if its filter names none.
DEFAULT_STATES: Final[dict[str, list[State]]] = {
    "cancel": sorted(LIVE),
    "retry": ["failed", "cancelled"],
    "delete": sorted(FINAL),
}

Change = Callable[[Sequence[str]], Awaitable[dict[str, str]]]


async def apply_action(client: Client, action: Action, caller: Caller) -> Acted:
    """Change the selected jobs, or with `dry_run` only count them."""
    if (action.ids is None) == (action.filter is None):
        allowed = "either `ids` or a `filter`"
        raise Problem(422, "does-not-fit", f"An action takes {allowed}.", fields=[("ids", allowed)])
    change = _changes(client, action, caller)[action.action]
    if action.ids is not None:
        return await _change_by_ids(client, action, change)
    filters = _job_filters(action)
    until = action.until or await newest(client)
    if action.dry_run:
        return await _count_matching(client, filters, until)
    return await _change_matching(client, action, filters, until, change)


def _retries_completed(action: Action) -> bool:
    """Return whether the caller asks for completed jobs to run again."""
    states = action.filter.state if action.filter is not None else None
    return action.completed or "completed" in (states or ())


def _changes(client: Client, action: Action, caller: Caller) -> dict[str, Change]:
    return {
        "cancel": lambda ids: client.cancel_many(ids, f"requested by {caller.name}"),
        "retry": lambda ids: client.retry_many(ids, completed=_retries_completed(action)),
        "delete": client.delete_many,
    }


def _job_filters(action: Action) -> dict[str, Any]:
    assert action.filter is not None
    filters = action.filter.model_dump(exclude_none=True)
    if not filters:
        rule = "at least one field: an empty filter would mean every job there is"
        raise Problem(422, "does-not-fit", f"A filter has {rule}.", fields=[("filter", rule)])
    filters.setdefault("state", DEFAULT_STATES[action.action])
    return filters


async def _matching_pages(
    client: Client, filters: dict[str, Any], until: str, after: str | None
) -> AsyncGenerator[tuple[list[str], str | None]]:
    """Yield the ids of matching jobs page by page, each with the `after` of the next page or None.

    Jobs that are newer than `until` are left out. Indexes find the jobs even in a long history.
    Only a filter with a `text` reads all jobs, newest first, because no index covers arguments.
    """
    if "text" not in filters:
        names = ("queue", "task", "tenant", "subject", "tag", "batch", "workflow")
        indexed = {name: filters.get(name) for name in names}
        pages = matching(
            client, states=filters["state"], **indexed, above=None, below=int(until) + 1,
            size=PAGE_SIZE, after=after,
        )  # fmt: skip
        async with aclosing(pages):
            async for page in pages:
                yield page
        return
    after = after or str(int(until) + 1)
    if not after.isdigit():
        raise ConfigError("after", after, "the `after` of a call with this filter")
    while after is not None:
        jobs = await client.list(**filters, after=after, limit=PAGE_SIZE)
        after = jobs.after
        yield [job.id for job in jobs.jobs], after


async def _change_by_ids(client: Client, action: Action, change: Change) -> Acted:
    ids = list(dict.fromkeys(action.ids or ()))
    if action.dry_run:
        states = await client.states(ids)
        return Acted(dry_run=True, matched=len(states), is_exact=True)
    answers = await change(ids)
    left = _unchanged(action, answers)
    changed = len(answers) - len(left)
    return Acted(dry_run=False, matched=len(ids), is_exact=True, changed=changed, left=left)


async def _count_matching(client: Client, filters: dict[str, Any], until: str) -> Acted:
    matched, after = 0, None
    async with aclosing(_matching_pages(client, filters, until, None)) as pages:
        for _ in range(MAX_COUNTED // PAGE_SIZE):
            ids, after = await anext(pages)
            matched += len(ids)
            if after is None:
                break
    return Acted(dry_run=True, matched=matched, is_exact=after is None, until=until)


async def _change_matching(
    client: Client, action: Action, filters: dict[str, Any], until: str, change: Change
) -> Acted:
    after, matched, left = action.after, 0, dict[str, str]()
    async with aclosing(_matching_pages(client, filters, until, after)) as pages:
        for _ in range(MAX_PAGES):
            ids, after = await anext(pages)
            matched += len(ids)
            left |= _unchanged(action, await change(ids)) if ids else {}
            if after is None:
                break
    return Acted(
        dry_run=False,
        matched=matched,
        is_exact=after is None,
        changed=matched - len(left),
        left=left,
        until=until,
        after=after,
    )


def _unchanged(action: Action, answers: dict[str, str]) -> dict[str, str]:
    done = CHANGED_STATES[action.action]
    return {job: state for job, state in answers.items() if state not in done}


router = APIRouter(prefix="/bulk", tags=["bulk"])

WRITE = raises(400, 401, 403, 409, 413, 422, 429, 503)


@router.post(
    "/jobs",
    status_code=202,
    responses={**returns(ManyEnqueued, 202, "The jobs are stored."), **WRITE},
)
@idempotent
async def enqueue_many(
    body: NewJobs, request: Request, caller: Enqueuer, idempotency_key: IdempotencyKey = None
) -> Response:
    """Enqueue up to 1,000 jobs. Either all of them are stored, or none."""
    runtime = runtime_of(request)
    requests = requests_from(runtime.app, body.jobs, caller)
    runtime.queue_names.expect_room(requests, caller)
    requests = with_idempotency_key(requests, idempotency_key, body)
    return as_json(ManyEnqueued(await runtime.client_of(caller).enqueue_many(requests)), 202)


@router.post("/states", responses={**returns(States), **WRITE})
async def states(body: AskedStates, request: Request, caller: Reader) -> Response:
    """Return the state and the progress of up to 1,000 jobs.

    Jobs that do not exist are left out.
    """
    return as_json(States(await runtime_of(request).client_of(caller).states(body.ids)))


@router.post("/actions", responses={**returns(Acted), **WRITE})
async def actions(body: Action, request: Request, caller: Operator) -> Response:
    """Cancel, retry or delete many jobs, which you select by their ids or by a filter."""
    return as_json(await apply_action(runtime_of(request).client_of(caller), body, caller))
