"""The request bodies of the API, and the types of their fields.

Ids are strings, because JavaScript's numbers cannot hold all of them.
"""

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

from penstock.groups.keys import Role, Scope
from penstock.job import State
from penstock.service.problems import Problem, described
from penstock.windows import Windows

ID_PATTERN = described(r"^[1-9][0-9]{0,17}$", "an id: a number of at most 18 digits, such as 42")
TASK_PATTERN = described(
    r"^[A-Za-z0-9_.:-]{1,200}$",
    "a task's name: at most 200 of the letters A to Z and a to z, digits, and _ . : -",
)
AFTER_PATTERN = described(
    r"^[0-9]{1,18}(-[0-9]{1,17}(-[0-9]{1,7}-[0-9]{1,17})?)?$", "the `after` of the call before"
)
QUEUE_PATTERN = described(
    r"^[A-Za-z0-9_.:-]{1,128}$",
    "a queue's name: at most 128 of the letters A to Z and a to z, digits, and _ . : -",
)

# No body has this many fields.
MAX_FIELDS: Final = 100

Id = Annotated[str, Field(pattern=ID_PATTERN, examples=["42"])]
Name = Annotated[str, Field(min_length=1, max_length=200)]
TaskName = Annotated[str, Field(pattern=TASK_PATTERN, examples=["shop.send_mail"])]
QueueName = Annotated[str, Field(pattern=QUEUE_PATTERN)]
Subject = Annotated[str, Field(min_length=1, max_length=500)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
# Strict: JSON's `true` and `"5"` are not numbers.
Seconds = Annotated[float, Field(strict=True, ge=0, le=315_360_000)]
Tenant = Annotated[str, Field(max_length=200)]


def _expect_text(value: Any) -> Any:
    """Accept a time in ISO 8601 only, since a bare number could mean anything."""
    if isinstance(value, str) and "-" not in value[1:]:
        raise ValueError("a moment such as 2030-01-31T12:00:00Z")
    if isinstance(value, int | float):
        raise ValueError("a moment as text, such as 2030-01-31T12:00:00Z")
    return value


def _in_utc(value: datetime) -> datetime:
    """Convert a time to UTC. This fails in the first and the last hours of the calendar."""
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("a moment in the years 1 to 9999 of UTC") from None


Moment = Annotated[AwareDatetime, BeforeValidator(_expect_text), AfterValidator(_in_utc)]


class StrictBody(BaseModel):
    """A body that must not have unknown fields."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, body: Any) -> Any:
        """Refuse an object with very many fields: each unknown field would cost an error."""
        if isinstance(body, dict) and len(body) > MAX_FIELDS:
            raise ValueError(f"an object with at most {MAX_FIELDS} fields")
        return body


class OptionsBody(StrictBody):
    """The options of a job. What is left out has the value that the task declares.

    `delay` and `timeout` are in seconds.
    """

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
        Field(
            description=(
                "The person on whose behalf the request is made. "
                "The key needs the scope `on_behalf`."
            )
        ),
    ] = None
    tags: Annotated[list[Tag], Field(max_length=32)] | None = None
    meta: dict[str, Any] | None = None
    idempotency_key: Subject | None = None


class NewJob(StrictBody):
    """The job to enqueue: a task by its name, and its arguments."""

    task: TaskName
    args: dict[str, Any] = {}
    options: OptionsBody = OptionsBody()


class NewJobs(StrictBody):
    """The jobs to enqueue. Either all of them are stored, or none."""

    jobs: Annotated[list[NewJob], Field(min_length=1, max_length=1000)]


class AskedStates(StrictBody):
    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)]


class JobFilter(StrictBody):
    """A filter for jobs. A job has to match all fields that are set."""

    state: Annotated[list[State], Field(max_length=7)] | None = None
    queue: QueueName | None = None
    task: Name | None = None
    tenant: Tenant | None = None
    subject: Subject | None = None
    tag: Tag | None = None
    text: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    batch: Id | None = None
    workflow: Id | None = None


class Action(StrictBody):
    """An action on jobs: on those with these `ids`, or on those that match the `filter`.

    With `dry_run` the jobs are only counted. The `until` of that answer freezes the filter: pass it
    with the action, and jobs that were enqueued later are not touched. One call changes at most a
    few thousand jobs of a filter; to go on, pass the `after` of its answer. A retry of `ids` does
    not touch completed jobs, unless `completed` is true.
    """

    action: Literal["cancel", "retry", "delete"]
    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)] | None = None
    filter: JobFilter | None = None
    until: Id | None = None
    after: Annotated[str, Field(pattern=AFTER_PATTERN)] | None = None
    completed: StrictBool = False
    dry_run: StrictBool = False


# Queues, lanes, limits, schedules and events


Weight = Annotated[int, Field(strict=True, ge=1, le=1000)]


class WindowsBody(StrictBody):
    """The hours in which workers take jobs, such as `mon-fri 22:00-06:00`."""

    open: Annotated[list[Annotated[str, Field(max_length=100)]], Field(min_length=1, max_length=50)]
    timezone: Annotated[str, Field(max_length=100)] = "UTC"


class QueueBody(StrictBody):
    paused: StrictBool | None = None
    fair: StrictBool | None = None
    lane_key: Name | None = None
    ageing: Seconds | None = None
    windows: WindowsBody | None = None
    late_after: Seconds | None = None


class LaneBody(StrictBody):
    weight: Weight | None = None
    paused: StrictBool | None = None
    windows: WindowsBody | None = None
    late_after: Seconds | None = None


class LimitBody(StrictBody):
    """A limit on how many jobs run at once, and on how often jobs start.

    `slots` is how many jobs run at once. `rate` is how many start per time, such as `100/minute`,
    and `burst` is how many of these may start at once after a pause.
    """

    slots: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None = None
    rate: Annotated[str, Field(max_length=50, examples=["100/minute"])] | None = None
    burst: Annotated[float, Field(strict=True, gt=0, le=1e12)] | None = None


class ScheduleBody(StrictBody):
    task: TaskName | None = None
    args: dict[str, Any] | None = None
    options: OptionsBody | None = None
    cron: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    every: Annotated[float, Field(strict=True, gt=0, le=31_536_000)] | None = None
    timezone: Annotated[str, Field(max_length=100)] | None = None
    jitter: Seconds | None = None
    overlap: Literal["skip", "queue_one", "allow"] | None = None
    catch_up: Literal["skip", "once", "all"] | None = None


class EventBody(StrictBody):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Any = None
    tenant: Annotated[str, Field(max_length=200)] = ""


def changed_settings(body: StrictBody) -> dict[str, Any]:
    """Return the settings that a body changes, as keyword arguments for the client.

    A null removes a setting. Raises a Problem if the body changes nothing.
    """
    values = {name: getattr(body, name) for name in body.model_fields_set}
    if not values:
        raise Problem(422, "does-not-fit", "There is nothing to change: give at least one setting.")
    if isinstance(windows := values.get("windows"), WindowsBody):
        values["windows"] = Windows(*windows.open, timezone=windows.timezone)
    return values


# Keys, people and logins


KEY_NAME_PATTERN = described(
    r"^[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}$",
    "at most 100 of the letters A to Z and a to z, digits, and _ . @ + -, with a letter or a digit "
    "first",
)
KEY_ID_PATTERN = described(r"^[0-9a-z]{8,32}$", "a key's id: 8 to 32 digits and small letters")
PERSON_PATTERN = described(
    r"^[A-Za-z0-9_.@+-]{1,100}$",
    "at most 100 of the letters A to Z and a to z, digits, and _ . @ + -",
)
TEXT_PATTERN = described(
    r"^[^\x00-\x1f\x7f]{1,200}$", "at most 200 characters, none of them for control"
)

KeyName = Annotated[str, Field(pattern=KEY_NAME_PATTERN, examples=["ci"])]
KeyId = Annotated[str, Field(pattern=KEY_ID_PATTERN, examples=["1f2e3d4c5b6a"])]
PersonName = Annotated[str, Field(pattern=PERSON_PATTERN, examples=["ada"])]
Password = Annotated[str, Field(min_length=10, max_length=1000)]
# A hundred years.
KeyLifetime = Annotated[float, Field(strict=True, gt=0, le=3_155_760_000)]


class KeyBody(StrictBody):
    """The key to create. It expires after `expires` seconds, or never if that is null."""

    name: KeyName
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=5)]
    tenant: Annotated[str, Field(pattern=TEXT_PATTERN)] | None = None
    expires: KeyLifetime | None = None


class RotationBody(StrictBody):
    """How the key is replaced.

    The old key stays valid for `overlap` seconds. The new key expires after `expires` seconds; if
    that is null, it has the same lifetime as the old key.
    """

    overlap: Annotated[float, Field(strict=True, ge=0, le=315_360_000)] = 86_400
    expires: KeyLifetime | None = None


class PersonBody(StrictBody):
    name: PersonName
    role: Role
    password: Password


class PersonChange(StrictBody):
    """The changes to a person. What is left out stays as it is."""

    role: Role | None = None
    password: Password | None = None
    disabled: StrictBool | None = None


class LoginBody(StrictBody):
    name: Annotated[str, Field(pattern=TEXT_PATTERN)]
    password: Annotated[str, Field(min_length=1, max_length=1000)]


# Live subjects


SUBJECT_PATTERN = described(r"^[a-z-]{1,40}/.{1,500}$", "a kind and an id, such as job/42")

SubjectText = Annotated[str, Field(pattern=SUBJECT_PATTERN, examples=["job/42"])]


class AskedTicket(StrictBody):
    """The subjects that a ticket is for, such as `job/42`."""

    subjects: Annotated[list[SubjectText], Field(min_length=1, max_length=100)]
