"""What is asked about dead letters."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from penstock.service.models.jobs import Closed, Id, Moment, Name, QueueName, Subject, Tag, Tenant


class DeadBody(Closed):
    """Dead letters that agree in all that is given."""

    queue: QueueName | None = None
    task: Name | None = None
    tenant: Tenant | None = None
    subject: Subject | None = None
    tag: Tag | None = None
    reason: Name | None = None
    error: Name | None = None
    batch: Id | None = None
    since: Moment | None = None
    until: Moment | None = None


class Chosen(Closed):
    """Some by their ids, or by a filter; the longest dead first, at most `limit` in one call."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None
    filter: DeadBody | None = None
    limit: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 10_000


class Redrive(Chosen):
    rate: Annotated[str, Field(max_length=50, examples=["100/minute"])] | None = None
