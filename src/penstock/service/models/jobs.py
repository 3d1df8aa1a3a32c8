"""What is asked about jobs. Ids are strings: a number of JavaScript cannot hold them all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    model_validator,
)

from penstock.job import State
from penstock.service.problems import worded

ID = worded(r"^[1-9][0-9]{0,17}$", "an id: a number of at most 18 digits, such as 42")
TASK = worded(
    r"^[A-Za-z0-9_.:-]{1,200}$",
    "a task's name: at most 200 of the letters A to Z and a to z, digits, and _ . : -",
)
AFTER = worded(
    r"^[0-9]{1,18}(-[0-9]{1,17}(-[0-9]{1,7}-[0-9]{1,17})?)?$", "the `after` of the call before"
)
QUEUE = worded(
    r"^[A-Za-z0-9_.:-]{1,128}$",
    "a queue's name: at most 128 of the letters A to Z and a to z, digits, and _ . : -",
)

# More than any of these bodies has.
MAX_FIELDS: Final = 100

Id = Annotated[str, Field(pattern=ID, examples=["42"])]
Name = Annotated[str, Field(min_length=1, max_length=200)]
TaskName = Annotated[str, Field(pattern=TASK, examples=["shop.send_mail"])]
QueueName = Annotated[str, Field(pattern=QUEUE)]
Subject = Annotated[str, Field(min_length=1, max_length=500)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
# A number is one that is written as one: true is none, nor is "5".
Seconds = Annotated[float, Field(strict=True, ge=0, le=315_360_000)]
Tenant = Annotated[str, Field(max_length=200)]


def _is_written(given: Any) -> Any:
    """A moment as ISO 8601 writes it; a bare number could be anything."""
    if isinstance(given, str) and "-" not in given[1:]:
        raise ValueError("a moment such as 2030-01-31T12:00:00Z")
    if isinstance(given, int | float):
        raise ValueError("a moment as text, such as 2030-01-31T12:00:00Z")
    return given


def _is_storable(given: datetime) -> datetime:
    """In the database a moment is one of UTC, which the first and the last days may not have."""
    try:
        return given.astimezone(UTC)
    except OverflowError:
        raise ValueError("a moment in the years 1 to 9999 of UTC") from None


Moment = Annotated[AwareDatetime, BeforeValidator(_is_written), AfterValidator(_is_storable)]


class Closed(BaseModel):
    """A body that is refused if it says more than is known."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, given: Any) -> Any:
        """Each field that is not known costs an error of its own: do not begin with so many."""
        if isinstance(given, dict) and len(given) > MAX_FIELDS:
            raise ValueError(f"an object with at most {MAX_FIELDS} fields")
        return given


class OptionsBody(Closed):
    """How the job is to be run; what is left out is as the task says."""

    queue: QueueName | None = None
    priority: Annotated[int, Field(strict=True, ge=-100, le=100)] | None = None
    delay: Seconds | None = None
    run_at: Moment | None = None
    deadline: Moment | None = None
    max_attempts: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = None
    timeout: Annotated[float, Field(strict=True, gt=0, le=315_360_000)] | None = None
    lane: Name | None = None
    tenant: Tenant | None = None
    subject: Subject | None = None
    requested_by: Annotated[
        Name | None,
        Field(description="The person who asks, for a key with the scope `on_behalf`."),
    ] = None
    tags: Annotated[list[Tag], Field(max_length=32)] | None = None
    meta: dict[str, Any] | None = None
    idempotency_key: Subject | None = None


class NewJob(Closed):
    """A task by its name, with arguments."""

    task: TaskName
    args: dict[str, Any] = {}
    options: OptionsBody = OptionsBody()


class NewJobs(Closed):
    """Many jobs, stored all or none."""

    jobs: Annotated[list[NewJob], Field(min_length=1, max_length=1000)]


class AskedStates(Closed):
    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)]


class JobFilter(Closed):
    """Jobs that agree in all that is given."""

    state: Annotated[list[State], Field(max_length=7)] | None = None
    queue: QueueName | None = None
    task: Name | None = None
    tenant: Tenant | None = None
    subject: Subject | None = None
    tag: Tag | None = None
    text: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    batch: Id | None = None
    workflow: Id | None = None


class Action(Closed):
    """What to do with a selection: `ids`, or a `filter` of jobs that are not newer than `until`.

    With `dry_run` nothing is changed: the answer counts, and its `until` freezes the filter. A call
    changes at most some thousands; `after` says where the next goes on. A retry of `ids` leaves
    completed jobs, unless `completed` is true.
    """

    action: Literal["cancel", "retry", "delete"]
    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None
    filter: JobFilter | None = None
    until: Id | None = None
    after: Annotated[str, Field(pattern=AFTER)] | None = None
    completed: StrictBool = False
    dry_run: StrictBool = False
