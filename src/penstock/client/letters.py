"""Which dead letters are meant, and what the client answers about them."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec
from msgspec import Struct

from penstock.client import filters
from penstock.errors import BadArgument
from penstock.store import key_of
from penstock.store.failed import Place
from penstock.tasks import Task

if TYPE_CHECKING:
    from penstock.client.as_tenant import AsTenant

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DeadFilter(TypedDict, total=False):
    """Dead letters that agree in all that is given.

    `reason` is why a job was given up (`exhausted`, `discarded`, `worker_lost`, …), `error` the
    type of its last error. `since` and `until` are about when it failed.
    """

    queue: str | None
    task: str | Task[Any, Any] | None
    tenant: str | None
    subject: str | None
    tag: str | None
    reason: str | None
    error: str | None
    batch: str | None
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Which:
    """A filter, checked: its fields are in the order of the statements' places."""

    queue: str | None = None
    task: str | Task[Any, Any] | None = None
    tenant: str | None = None
    subject: str | None = None
    tag: str | None = None
    reason: str | None = None
    error: str | None = None
    batch: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def of(cls, given: DeadFilter, tenant: AsTenant | None) -> Which:
        if unknown := given.keys() - {each.name for each in fields(cls)}:
            raise TypeError(f"There is no filter {', '.join(sorted(unknown))} for dead letters.")
        which = cls(**given)
        if isinstance(which.task, Task):
            which = replace(which, task=which.task.name)
        if tenant is not None:
            which = replace(which, tenant=tenant.named(which.tenant))
        which._check()
        return which

    @property
    def values(self) -> list[Any]:
        """What goes to the statements' places."""
        batch = None if self.batch is None else key_of(self.batch)
        return list(astuple(replace(self, batch=batch)))  # type: ignore[arg-type]

    @property
    def as_json(self) -> str:
        """What is given, for the audit."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return msgspec.json.encode(given).decode()

    def _check(self) -> None:
        names = ("queue", "task", "tenant", "subject", "tag", "reason", "error")
        filters.texts(**{name: getattr(self, name) for name in names})
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and not _is_aware(moment):
                raise BadArgument(name, moment, "a datetime with a time zone")
        batch: Any = self.batch
        if batch is not None and not (isinstance(batch, str) and batch.isdigit()):
            raise BadArgument("batch", batch, "the id of a batch, a text")


class Redriven(Struct, frozen=True):
    """What a redrive came to.

    `number` jobs came back, the last of them `due` then; those that were `left` are here by their
    ids, each with why: `held` (its unique key belongs to another job now), the state in which it
    is, or `missing`. Of very many the first 10,000 are told. `workflows` are those of which so many
    steps came back alone: `retry_workflow` also brings back what was cancelled because of them.
    """

    number: int = 0
    left: dict[str, str] = {}
    due: datetime | None = None
    workflows: dict[str, int] = {}


class Purged(Struct, frozen=True):
    """What a purge came to: so many are gone, and those that were `left`, by id with why."""

    number: int = 0
    left: dict[str, str] = {}


class DeadGroup(Struct, frozen=True, kw_only=True):
    """Dead letters that failed alike; `example` is the id of one, `message` what the last said."""

    task: str
    reason: str
    error: str | None
    number: int
    example: str
    message: str | None
    first_at: datetime
    last_at: datetime


class DeadSummary(Struct, frozen=True):
    """Dead letters by task, reason and type of error, the most first.

    `number` is how many were counted; `is_exact` is False if there may be more.
    """

    groups: tuple[DeadGroup, ...]
    number: int
    is_exact: bool


def place_of(after: str) -> Place:
    """The place that a page's `after` stands for."""
    moment, _, job = after.partition("-")
    if not (moment.isascii() and moment.isdigit() and job.isascii() and job.isdigit()):
        raise BadArgument("after", after, "the `after` of a page of dead letters")
    return Place(_EPOCH + timedelta(microseconds=int(moment)), int(job))


def after_of(place: Place) -> str:
    return f"{(place.failed_at - _EPOCH) // timedelta(microseconds=1)}-{place.id}"


def _is_aware(moment: Any) -> bool:
    return isinstance(moment, datetime) and moment.utcoffset() is not None
