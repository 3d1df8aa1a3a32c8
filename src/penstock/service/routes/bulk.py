"""Many jobs in one call: enqueue them, ask for their states, change them."""

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
from penstock.service.enqueue import IdempotencyKey, request_from, with_idempotency_key
from penstock.service.problems import Problem, raises
from penstock.service.routing import as_json, idempotent, returns
from penstock.service.schemas import Action, AskedStates, NewJobs

PAGE_SIZE: Final = 500
# A call changes so many and looks at so many pages, so that it ends in a few seconds.
MAX_PAGES: Final = 10
MAX_COUNTED: Final = 10_000
CHANGED_STATES: Final = {
    "cancel": {"cancelled"},
    "retry": {"ready", "blocked"},
    "delete": {"deleted"},
}
# Those that an action can be meant for, if the filter names no state.
DEFAULT_STATES: Final[dict[str, list[State]]] = {
    "cancel": sorted(LIVE),
    "retry": ["failed", "cancelled"],
    "delete": sorted(FINAL),
}

Change = Callable[[Sequence[str]], Awaitable[dict[str, str]]]


async def apply_action(client: Client, action: Action, caller: Caller) -> Acted:
    """Do it, or with `dry_run` only count."""
    if (action.ids is None) == (action.filter is None):
        told = "either `ids` or a `filter`"
        raise Problem(422, "does-not-fit", f"An action takes {told}.", fields=[("ids", told)])
    change = _changes(client, action, caller)[action.action]
    if action.ids is not None:
        return await _change_by_ids(client, action, change)
    which = _job_filter(action)
    until = action.until or await newest(client)
    if action.dry_run:
        return await _count_matching(client, which, until)
    return await _change_matching(client, action, which, until, change)


def _retries_completed(action: Action) -> bool:
    """Whether completed jobs are to run again: only if somebody said so."""
    states = action.filter.state if action.filter is not None else None
    return action.completed or "completed" in (states or ())


def _changes(client: Client, action: Action, caller: Caller) -> dict[str, Change]:
    return {
        "cancel": lambda ids: client.cancel_many(ids, f"requested by {caller.name}"),
        "retry": lambda ids: client.retry_many(ids, completed=_retries_completed(action)),
        "delete": client.delete_many,
    }


def _job_filter(action: Action) -> dict[str, Any]:
    assert action.filter is not None
    which = action.filter.model_dump(exclude_none=True)
    if not which:
        told = "at least one field: an empty filter would mean every job there is"
        raise Problem(422, "does-not-fit", f"A filter has {told}.", fields=[("filter", told)])
    which.setdefault("state", DEFAULT_STATES[action.action])
    return which


async def _matching_pages(
    client: Client, which: dict[str, Any], until: str, after: str | None
) -> AsyncGenerator[tuple[list[str], str | None]]:
    """Ids of jobs that are not newer than `until`, and where the next page begins, if there is one.

    By what agrees with the filter, however long the history is. What the arguments of jobs hold is
    in no index: for a text they are looked through from the newest on.
    """
    if "text" not in which:
        names = ("queue", "task", "tenant", "subject", "tag", "batch", "workflow")
        chosen = {name: which.get(name) for name in names}
        found = matching(
            client, states=which["state"], **chosen, above=None, below=int(until) + 1,
            size=PAGE_SIZE, after=after,
        )  # fmt: skip
        async with aclosing(found):
            async for page in found:
                yield page
        return
    after = after or str(int(until) + 1)
    if not after.isdigit():
        raise ConfigError("after", after, "the `after` of a call with this filter")
    while after is not None:
        jobs = await client.list(**which, after=after, limit=PAGE_SIZE)
        after = jobs.after
        yield [job.id for job in jobs.jobs], after


async def _change_by_ids(client: Client, action: Action, change: Change) -> Acted:
    ids = list(dict.fromkeys(action.ids or ()))
    if action.dry_run:
        found = await client.states(ids)
        return Acted(dry_run=True, matched=len(found), is_exact=True)
    answers = await change(ids)
    left = _unchanged(action, answers)
    number = len(answers) - len(left)
    return Acted(dry_run=False, matched=len(ids), is_exact=True, changed=number, left=left)


async def _count_matching(client: Client, which: dict[str, Any], until: str) -> Acted:
    number, after = 0, None
    async with aclosing(_matching_pages(client, which, until, None)) as pages:
        for _ in range(MAX_COUNTED // PAGE_SIZE):
            ids, after = await anext(pages)
            number += len(ids)
            if after is None:
                break
    return Acted(dry_run=True, matched=number, is_exact=after is None, until=until)


async def _change_matching(
    client: Client, action: Action, which: dict[str, Any], until: str, change: Change
) -> Acted:
    after, matched, left = action.after, 0, dict[str, str]()
    async with aclosing(_matching_pages(client, which, until, after)) as pages:
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
    return {job: why for job, why in answers.items() if why not in done}


router = APIRouter(prefix="/bulk", tags=["bulk"])

WRITE = raises(400, 401, 403, 409, 413, 422, 429, 503)


@router.post("/jobs", status_code=202, responses={**returns(ManyEnqueued, 202, "Stored."), **WRITE})
@idempotent
async def enqueue_many(
    given: NewJobs, request: Request, caller: Enqueuer, idempotency_key: IdempotencyKey = None
) -> Response:
    """Enqueue up to 1,000 jobs, all or none."""
    runtime = runtime_of(request)
    wanted = [
        request_from(runtime.app, one, caller, f"jobs.{place}.")
        for place, one in enumerate(given.jobs)
    ]
    runtime.queue_names.expect_room(wanted, caller)
    wanted = with_idempotency_key(wanted, idempotency_key, given)
    return as_json(ManyEnqueued(await runtime.client_of(caller).enqueue_many(wanted)), 202)


@router.post("/states", responses={**returns(States), **WRITE})
async def states(given: AskedStates, request: Request, caller: Reader) -> Response:
    """State and progress of up to 1,000 jobs; those not found are left out."""
    return as_json(States(await runtime_of(request).client_of(caller).states(given.ids)))


@router.post("/actions", responses={**returns(Acted), **WRITE})
async def actions(given: Action, request: Request, caller: Operator) -> Response:
    """Cancel, retry or delete many jobs: a selection by ids, or a frozen filter."""
    return as_json(await apply_action(runtime_of(request).client_of(caller), given, caller))
