"""Tasks (functions that run as jobs), the encoding of their arguments, and requests for jobs."""

from penstock.tasks.arguments import Arguments, Upcaster
from penstock.tasks.decorator import TaskDecorator, task
from penstock.tasks.handler.budget import Budget, NotNow
from penstock.tasks.handler.context import (
    BatchContext,
    Context,
    Item,
    SyncBatchContext,
    SyncContext,
)
from penstock.tasks.handler.failure import asked_wait, describe_error, is_retryable, raised_at
from penstock.tasks.handler.waits import Suspended
from penstock.tasks.options import Options, OptionValues
from penstock.tasks.payload import encode_result
from penstock.tasks.reader import Call
from penstock.tasks.registry import Registry
from penstock.tasks.request import Request
from penstock.tasks.schedule import CatchUp, Declaration, Overlap, Timetable, Wins, declare
from penstock.tasks.settings import Batch, TaskSettings, TaskValues
from penstock.tasks.task import AsyncContextTask, AsyncTask, SyncContextTask, SyncTask, Task
from penstock.tasks.unique import Unique
from penstock.tasks.workflow import OnFailure, Step, Workflow

__all__ = [
    "Arguments",
    "AsyncContextTask",
    "AsyncTask",
    "Batch",
    "BatchContext",
    "Budget",
    "Call",
    "CatchUp",
    "Context",
    "Declaration",
    "Item",
    "NotNow",
    "OnFailure",
    "OptionValues",
    "Options",
    "Overlap",
    "Registry",
    "Request",
    "Step",
    "Suspended",
    "SyncBatchContext",
    "SyncContext",
    "SyncContextTask",
    "SyncTask",
    "Task",
    "TaskDecorator",
    "TaskSettings",
    "TaskValues",
    "Timetable",
    "Unique",
    "Upcaster",
    "Wins",
    "Workflow",
    "asked_wait",
    "declare",
    "describe_error",
    "encode_result",
    "is_retryable",
    "raised_at",
    "task",
]
