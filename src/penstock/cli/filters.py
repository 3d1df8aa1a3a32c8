"""The filter options that select jobs, for commands that read jobs or change them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import parse_past_time

if TYPE_CHECKING:
    from penstock.cli.database import OpenQueue
    from penstock.job import Job

FILTER_PANEL = "Which jobs"
PAGE_SIZE = 500


class StateName(StrEnum):
    scheduled = "scheduled"
    ready = "ready"
    running = "running"
    blocked = "blocked"
    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"


def filter_option(help: str, **more: Any) -> Any:
    return typer.Option(help=help, show_default=False, rich_help_panel=FILTER_PANEL, **more)


@dataclass(frozen=True)
class JobFilterOptions:
    """A filter of jobs. A job must match every option that the user gave."""

    state: Annotated[
        list[StateName] | None, filter_option("Jobs in this state; may be repeated.")
    ] = None
    queue: Annotated[str | None, filter_option("Jobs of this queue.")] = None
    task: Annotated[str | None, filter_option("Jobs of this task, by its name.")] = None
    tenant: Annotated[str | None, filter_option("Jobs of this tenant.")] = None
    subject: Annotated[str | None, filter_option("Jobs about this, such as document:42.")] = None
    tag: Annotated[str | None, filter_option("Jobs with this tag.")] = None
    batch: Annotated[str | None, filter_option("Jobs of this batch.", metavar="ID")] = None
    workflow: Annotated[str | None, filter_option("Jobs of this workflow.", metavar="ID")] = None
    since: Annotated[
        datetime | None,
        filter_option(
            "Jobs enqueued since then: 2h, 7d or a time.", parser=parse_past_time, metavar="WHEN"
        ),
    ] = None
    until: Annotated[
        datetime | None,
        filter_option(
            "Jobs enqueued before then: 2h, 7d or a time.", parser=parse_past_time, metavar="WHEN"
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def is_only_tenant(self) -> bool:
        return {field.name for field in fields(self) if getattr(self, field.name) is not None} == {
            "tenant"
        }

    async def id_pages(
        self, queue: OpenQueue, states: list[StateName]
    ) -> AsyncIterator[tuple[list[str], bool]]:
        """Yield pages of the ids of matching jobs, each with whether another page may follow.

        If the filter names no states, only jobs in one of `states` match.
        """
        from penstock.groups.bulk import matching

        insights = queue.insights
        wanted_states: Any = [str(state) for state in self.state or states]
        async for ids, after in matching(
            queue.client,
            states=wanted_states,
            queue=self.queue,
            task=self.task,
            tenant=self.tenant,
            subject=self.subject,
            tag=self.tag,
            batch=self.batch,
            workflow=self.workflow,
            above=None if self.since is None else await insights.last_before(self.since),
            below=None if self.until is None else await insights.last_before(self.until) + 1,
            size=PAGE_SIZE,
        ):
            yield ids, after is not None

    async def pages(
        self,
        queue: OpenQueue,
        *,
        after: str | None = None,
        size: int = PAGE_SIZE,
    ) -> AsyncIterator[tuple[tuple[Job, ...], str | None]]:
        """Yield pages of jobs, newest first, each with the cursor of the next page."""
        from penstock.store import key_of

        insights = queue.insights
        oldest = 0 if self.since is None else await insights.last_before(self.since)
        if self.until is not None:
            newest = await insights.last_before(self.until) + 1
            after = str(newest if after is None else min(newest, key_of(after)))
        wanted_states: Any = [str(state) for state in self.state or ()]
        while True:
            page = await queue.client.list(
                state=wanted_states or None,
                queue=self.queue,
                task=self.task,
                tenant=self.tenant,
                subject=self.subject,
                tag=self.tag,
                batch=self.batch,
                workflow=self.workflow,
                after=after,
                limit=size,
            )
            jobs = tuple(job for job in page.jobs if int(job.id) > oldest)
            after = page.after if len(jobs) == len(page.jobs) else None
            yield jobs, after
            if after is None:
                return
