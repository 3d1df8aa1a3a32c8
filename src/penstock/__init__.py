"""Durable background jobs on Postgres.

from penstock import Penstock

app = Penstock()

@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}"
"""

from penstock.app import Penstock
from penstock.backoff import Exponential, Fixed, Function, Listed
from penstock.client import (
    Batch,
    BatchPage,
    BatchStatus,
    Client,
    Enqueued,
    Fire,
    JobStatus,
    Page,
    Schedule,
    Started,
    WorkflowPage,
    WorkflowStatus,
    WorkflowStep,
)
from penstock.config import Liveness, Pace, Stopping, Upkeep
from penstock.errors import (
    BatchClosed,
    BatchNotFound,
    BatchTimeout,
    DatabaseLost,
    EventTimeout,
    IdempotencyMismatch,
    JobCancelled,
    JobConflict,
    JobFailed,
    JobNotFound,
    NotRetryable,
    PayloadRefused,
    PenstockError,
    PollTimeout,
    Retryable,
    ScheduleNotFound,
    StaleAttempt,
    UniqueConflict,
    WaitTimeout,
    WorkflowCycle,
    WorkflowNotFound,
    WorkflowRefused,
    WorkflowTimeout,
)
from penstock.job import AttemptError, Job
from penstock.outcome import Cancel, Discard, Done, Retry, Snooze
from penstock.tasks import (
    Budget,
    Context,
    NotNow,
    Request,
    Step,
    Suspended,
    Task,
    Unique,
    Workflow,
    task,
)
from penstock.tasks.cache import Cache
from penstock.tasks.parent import Parent
from penstock.tasks.poll import Pending
from penstock.windows import Windows
from penstock.worker import Tally, Worker

__version__ = "0.1.0"

__all__ = [
    "AttemptError",
    "Batch",
    "BatchClosed",
    "BatchNotFound",
    "BatchPage",
    "BatchStatus",
    "BatchTimeout",
    "Budget",
    "Cache",
    "Cancel",
    "Client",
    "Context",
    "DatabaseLost",
    "Discard",
    "Done",
    "Enqueued",
    "EventTimeout",
    "Exponential",
    "Fire",
    "Fixed",
    "Function",
    "IdempotencyMismatch",
    "Job",
    "JobCancelled",
    "JobConflict",
    "JobFailed",
    "JobNotFound",
    "JobStatus",
    "Listed",
    "Liveness",
    "NotNow",
    "NotRetryable",
    "Pace",
    "Page",
    "Parent",
    "PayloadRefused",
    "Pending",
    "Penstock",
    "PenstockError",
    "PollTimeout",
    "Request",
    "Retry",
    "Retryable",
    "Schedule",
    "ScheduleNotFound",
    "Snooze",
    "StaleAttempt",
    "Started",
    "Step",
    "Stopping",
    "Suspended",
    "Tally",
    "Task",
    "Unique",
    "UniqueConflict",
    "Upkeep",
    "WaitTimeout",
    "Windows",
    "Worker",
    "Workflow",
    "WorkflowCycle",
    "WorkflowNotFound",
    "WorkflowPage",
    "WorkflowRefused",
    "WorkflowStatus",
    "WorkflowStep",
    "WorkflowTimeout",
    "task",
]
