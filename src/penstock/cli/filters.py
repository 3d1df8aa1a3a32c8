"""Which jobs: the same filters for looking and for changing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.options import past

if TYPE_CHECKING:
    from penstock.cli.database import Reached
    from penstock.job import Job

PANEL = "Which jobs"
PAGE = 500


class StateName(StrEnum):
    scheduled = "scheduled"
    ready = "ready"
    running = "running"
    blocked = "blocked"
    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"


def option(help: str, **more: Any) -> Any:
    return typer.Option(help=help, show_default=False, rich_help_panel=PANEL, **more)


@dataclass(frozen=True)
class Filter:
    """Jobs that agree in all that is given."""

    state: Annotated[list[StateName] | None, option("Jobs in this state; may be repeated.")] = None
    queue: Annotated[str | None, option("Jobs of this queue.")] = None
    task: Annotated[str | None, option("Jobs of this task, by its name.")] = None
    tenant: Annotated[str | None, option("Jobs of this tenant.")] = None
    subject: Annotated[str | None, option("Jobs about this, such as document:42.")] = None
    tag: Annotated[str | None, option("Jobs with this tag.")] = None
    batch: Annotated[str | None, option("Jobs of this batch.", metavar="ID")] = None
    workflow: Annotated[str | None, option("Jobs of this workflow.", metavar="ID")] = None
    since: Annotated[
        datetime | None,
        option("Jobs enqueued since then: 2h, 7d or a time.", parser=past, metavar="WHEN"),
    ] = None
    until: Annotated[
        datetime | None,
        option("Jobs enqueued before then: 2h, 7d or a time.", parser=past, metavar="WHEN"),
    ] = None

    @property
    def is_given(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def is_tenant_alone(self) -> bool:
        return {each.name for each in fields(self) if getattr(self, each.name) is not None} == {
            "tenant"
        }

    async def ids(
        self, reached: Reached, states: list[StateName]
    ) -> AsyncIterator[tuple[list[str], bool]]:
        """Ids of all the jobs, for whoever changes them: a page at a time, and whether there may be
        a next one. `states` hold where the filter names none."""
        from penstock.groups.bulk import matching

        insights = reached.insights
        chosen: Any = [str(state) for state in self.state or states]
        async for ids, after in matching(
            reached.client,
            states=chosen,
            queue=self.queue,
            task=self.task,
            tenant=self.tenant,
            subject=self.subject,
            tag=self.tag,
            batch=self.batch,
            workflow=self.workflow,
            above=None if self.since is None else await insights.last_before(self.since),
            below=None if self.until is None else await insights.last_before(self.until) + 1,
            size=PAGE,
        ):
            yield ids, after is not None

    async def pages(
        self,
        reached: Reached,
        *,
        after: str | None = None,
        size: int = PAGE,
    ) -> AsyncIterator[tuple[tuple[Job, ...], str | None]]:
        """Pages of jobs, newest first, each with where the next one begins."""
        from penstock.store import key_of

        insights = reached.insights
        oldest = 0 if self.since is None else await insights.last_before(self.since)
        if self.until is not None:
            newest = await insights.last_before(self.until) + 1
            after = str(newest if after is None else min(newest, key_of(after)))
        chosen: Any = [str(state) for state in self.state or ()]
        while True:
            page = await reached.client.list(
                state=chosen or None,
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
