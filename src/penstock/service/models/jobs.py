"""Jobs as the API takes and gives them. Ids are strings: a JavaScript number cannot hold them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from penstock.job import State

Id = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,18}$", examples=["42"])]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
Seconds = Annotated[float, Field(ge=0, le=315_360_000)]


class Closed(BaseModel):
    """A body that is refused if it says more than is known."""

    model_config = ConfigDict(extra="forbid")


class OptionsModel(Closed):
    """How the job is to be run; what is left out is as the task says."""

    queue: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")] | None = None
    priority: Annotated[int, Field(ge=-100, le=100)] | None = None
    delay: Seconds | None = None
    run_at: datetime | None = None
    deadline: datetime | None = None
    max_attempts: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    timeout: Annotated[float, Field(gt=0, le=315_360_000)] | None = None
    lane: Name | None = None
    tenant: Annotated[str, Field(max_length=200)] | None = None
    subject: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    tags: (
        Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=32)]
        | None
    ) = None
    meta: dict[str, Any] | None = None
    idempotency_key: Annotated[str, Field(min_length=1, max_length=500)] | None = None


class NewJob(Closed):
    """A task by its name, with arguments."""

    task: Name
    args: dict[str, Any] = {}
    options: OptionsModel = OptionsModel()


class EnqueuedModel(BaseModel):
    """A job that is stored; `duplicate` if it was there before."""

    id: Id
    duplicate: bool


class ErrorModel(BaseModel):
    """How one attempt ended badly."""

    kind: str
    type: str
    message: str
    traceback: str
    attempt: int
    worker: str
    at: datetime | None = None
    began: datetime | None = None


class JobModel(BaseModel):
    """A job in its present state."""

    id: Id
    task: str
    state: State
    queue: str
    lane: str
    limits: list[str]
    reason: str | None = None
    priority: int
    tenant: str
    subject: str | None = None
    requested_by: str | None = None
    tags: list[str]
    attempt: int
    failures: int
    losses: int
    max_attempts: int
    timeout: float | None = None
    retry: dict[str, Any] | None = None
    worker: str | None = None
    args: dict[str, Any]
    args_version: int
    meta: dict[str, Any]
    created_at: datetime
    run_at: datetime | None = None
    ready_at: datetime | None = None
    attempted_at: datetime | None = None
    finished_at: datetime | None = None
    deadline: datetime | None = None
    stuck_since: datetime | None = None
    batch: str | None = None
    workflow: str | None = None
    step: str | None = None
    pending: int
    unique_key: str | None = None
    errors: list[ErrorModel]
    result: Any = None


class JobPage(BaseModel):
    """Jobs, newest first; `after` is where the next page begins, if there is one."""

    jobs: list[JobModel]
    after: Id | None = None


class AskedStates(Closed):
    ids: Annotated[list[Id], Field(min_length=1, max_length=1000)]


class StatusModel(BaseModel):
    """State and progress of a job."""

    id: Id
    state: State
    reason: str | None = None
    progress: float | None = None
    done: float | None = None
    total: float | None = None
    message: str | None = None


class States(BaseModel):
    """Those that were found, by id."""

    states: dict[str, Any]


class Changed(BaseModel):
    """What became of a job: its state now, or `deleted`."""

    id: Id
    state: str
