"""All jobs that agree with a filter, page by page, for whoever changes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from penstock.client import filters
from penstock.client.asking import Asking
from penstock.client.batch import batch_key
from penstock.client.workflow import workflow_key
from penstock.job import State
from penstock.store.matching import Match, matches


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
) -> AsyncIterator[tuple[list[str], bool]]:
    """Ids of jobs, live ones first, a page at a time, and whether there may be a next one.

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
    after: Match | None = None
    while True:
        page = await client._ask(
            partial(matches, client.store, which=which, after=after, limit=size)
        )
        yield [str(match.id) for match in page], len(page) == size
        if len(page) < size:
            return
        after = page[-1]
