"""One action on many jobs: a selection, or a filter that is frozen at a job's id."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from penstock.client import Client
from penstock.client.answers import Acted
from penstock.job import FINAL, LIVE, State
from penstock.service.caller import Caller
from penstock.service.models.jobs import Action
from penstock.service.problem import Problem

PAGE: Final = 500
# A call changes so many and looks at so many pages, so that it ends in a few seconds.
PAGES: Final = 10
COUNTED: Final = 10_000
DONE: Final = {
    "cancel": {"cancelled"},
    "retry": {"ready", "blocked"},
    "delete": {"deleted"},
}
# Those that an action can be meant for, if the filter names no state.
MEANT: Final[dict[str, list[State]]] = {
    "cancel": sorted(LIVE),
    "retry": ["failed", "cancelled"],
    "delete": sorted(FINAL),
}

Change = Callable[[Sequence[str]], Awaitable[dict[str, str]]]


async def act(client: Client, action: Action, caller: Caller) -> Acted:
    """Do it, or with `dry_run` only count."""
    if (action.ids is None) == (action.filter is None):
        told = "either `ids` or a `filter`"
        raise Problem(422, "does-not-fit", f"An action takes {told}.", fields=[("ids", told)])
    change = _changes(client, caller)[action.action]
    if action.ids is not None:
        return await _selected(client, action, change)
    which = _filter(action)
    until = action.until or await _newest(client, which)
    if action.dry_run:
        return await _counted(client, which, until)
    return await _filtered(client, action, which, until, change)


def _changes(client: Client, caller: Caller) -> dict[str, Change]:
    return {
        "cancel": lambda ids: client.cancel_many(ids, f"requested by {caller.name}"),
        "retry": client.retry_many,
        "delete": client.delete_many,
    }


def _filter(action: Action) -> dict[str, Any]:
    assert action.filter is not None
    which = action.filter.model_dump(exclude_none=True)
    if not which:
        told = "at least one field: an empty filter would mean every job there is"
        raise Problem(422, "does-not-fit", f"A filter has {told}.", fields=[("filter", told)])
    which.setdefault("state", MEANT[action.action])
    return which


async def _newest(client: Client, which: dict[str, Any]) -> str:
    """The newest job that the filter finds now; those that come later are not meant."""
    page = await client.list(**which, limit=1)
    return page.jobs[0].id if page.jobs else page.after or "0"


async def _selected(client: Client, action: Action, change: Change) -> Acted:
    ids = list(dict.fromkeys(action.ids or ()))
    if action.dry_run:
        found = await client.states(ids)
        return Acted(dry_run=True, matched=len(found), is_exact=True)
    answers = await change(ids)
    left = _left(action, answers)
    number = len(answers) - len(left)
    return Acted(dry_run=False, matched=len(ids), is_exact=True, changed=number, left=left)


async def _counted(client: Client, which: dict[str, Any], until: str) -> Acted:
    number, start = 0, _behind(until)
    for _ in range(COUNTED // PAGE):
        page = await client.list(**which, after=start, limit=PAGE)
        number += len(page.jobs)
        if page.after is None:
            return Acted(dry_run=True, matched=number, is_exact=True, until=until)
        start = page.after
    return Acted(dry_run=True, matched=number, is_exact=False, until=until)


async def _filtered(
    client: Client, action: Action, which: dict[str, Any], until: str, change: Change
) -> Acted:
    start, matched, left = action.after or _behind(until), 0, dict[str, str]()
    after: str | None = start
    for _ in range(PAGES):
        page = await client.list(**which, after=after, limit=PAGE)
        ids = [job.id for job in page.jobs]
        matched += len(ids)
        left |= _left(action, await change(ids)) if ids else {}
        after = page.after
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


def _left(action: Action, answers: dict[str, str]) -> dict[str, str]:
    done = DONE[action.action]
    return {job: why for job, why in answers.items() if why not in done}


def _behind(until: str) -> str:
    """Where a page begins whose first job may be this one."""
    return str(int(until) + 1)
