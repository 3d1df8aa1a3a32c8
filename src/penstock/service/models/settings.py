"""What is asked about queues, lanes, limits, schedules and the like. What is left out stays."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool

from penstock.service.models.jobs import Closed, Name, OptionsBody, Seconds, TaskName
from penstock.service.problems import Problem
from penstock.windows import Windows

Weight = Annotated[int, Field(strict=True, ge=1, le=1000)]


class WindowsBody(Closed):
    """The hours in which jobs are taken, such as `mon-fri 22:00-06:00`."""

    open: Annotated[list[Annotated[str, Field(max_length=100)]], Field(min_length=1, max_length=50)]
    timezone: Annotated[str, Field(max_length=100)] = "UTC"


class QueueBody(Closed):
    paused: StrictBool | None = None
    fair: StrictBool | None = None
    lane_key: Name | None = None
    ageing: Seconds | None = None
    windows: WindowsBody | None = None
    late_after: Seconds | None = None


class LaneBody(Closed):
    weight: Weight | None = None
    paused: StrictBool | None = None
    windows: WindowsBody | None = None
    late_after: Seconds | None = None


class LimitBody(Closed):
    """How many at once, how often, and how many of those in a burst."""

    slots: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None = None
    rate: Annotated[str, Field(max_length=50, examples=["100/minute"])] | None = None
    burst: Annotated[float, Field(strict=True, gt=0, le=1e12)] | None = None


class ScheduleBody(Closed):
    task: TaskName | None = None
    args: dict[str, Any] | None = None
    options: OptionsBody | None = None
    cron: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    every: Annotated[float, Field(strict=True, gt=0, le=31_536_000)] | None = None
    timezone: Annotated[str, Field(max_length=100)] | None = None
    jitter: Seconds | None = None
    overlap: Literal["skip", "queue_one", "allow"] | None = None
    catch_up: Literal["skip", "once", "all"] | None = None


class EventBody(Closed):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Any = None
    tenant: Annotated[str, Field(max_length=200)] = ""


def changes(given: Closed) -> dict[str, Any]:
    """What was said, windows as the client takes them; null takes a setting back."""
    values = {name: getattr(given, name) for name in given.model_fields_set}
    if not values:
        raise Problem(422, "does-not-fit", "Nothing is to change: give at least one setting.")
    if isinstance(found := values.get("windows"), WindowsBody):
        values["windows"] = Windows(*found.open, timezone=found.timezone)
    return values
