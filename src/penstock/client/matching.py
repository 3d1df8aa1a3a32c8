"""All jobs that agree with a filter, page by page, for whoever changes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial

from penstock.client import filters
from penstock.client.asking import Asking
from penstock.client.batch import batch_key
from penstock.client.workflow import workflow_key
from penstock.errors import BadArgument
from penstock.job import State
from penstock.store.matching import Match, matches, newest_id

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def matching(
    client: Asking,
    *,
    states: Sequence[State] | None,
    queue: str | None,
    task: str | None,
    tenant: str | None,
    subject: str | None,
    tag: str | None,
    batch: str | None,
    workflow: str | None,
    above: int | None,
    below: int | None,
    size: int,
    after: str | None = None,
) -> AsyncGenerator[tuple[list[str], str | None]]:
    """Ids of jobs, live ones first, a page at a time, each with where the next one begins, if any.

    Only those with ids above and below these. A job that ends meanwhile is not found anew.
    """
    if client._tenant is not None:
        tenant = client._tenant.named(tenant)
    which = [
        filters.states(states),
        *filters.texts(queue=queue, task=task, tenant=tenant, subject=subject, tag=tag),
        None if batch is None else batch_key(batch),
        None if workflow is None else workflow_key(workflow),
        above,
        below,
    ]
    last = None if after is None else _match_of(after)
    while True:
        page = await client._ask(
            partial(matches, client.store, which=which, after=last, limit=size)
        )
        last = page[-1] if len(page) == size else None
        yield [str(match.id) for match in page], None if last is None else _after_of(last)
        if last is None:
            return


async def newest(client: Asking) -> str:
    """An id that no job has passed yet: all that come later are newer."""
    return str(max(1, await client._ask(partial(newest_id, client.store))))


def _after_of(match: Match) -> str:
    """Where a page ends, as text: id and `until`; of an ended job also its day and moment."""
    place = [match.id, _microseconds(match.until)]
    if match.day is not None and match.at is not None:
        place += [match.day.toordinal(), _microseconds(match.at)]
    return "-".join(map(str, place))


def _match_of(after: str) -> Match:
    """The place that such a text stands for."""
    try:
        match [int(part) for part in after.split("-")]:
            case [job, until]:
                return Match(job, None, None, _moment(until))
            case [job, until, day, at]:
                return Match(job, date.fromordinal(day), _moment(at), _moment(until))
    except (ValueError, OverflowError):
        pass
    raise BadArgument("after", after, "the `after` of the call before")


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
