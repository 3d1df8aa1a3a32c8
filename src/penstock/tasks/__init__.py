"""Tasks: named handlers, their arguments as JSON, and the requests to run them."""

from penstock.tasks.arguments import Arguments, Upcaster
from penstock.tasks.batch import Batch
from penstock.tasks.batch_context import BatchContext, SyncBatchContext
from penstock.tasks.budget import Budget, NotNow
from penstock.tasks.context import Context, SyncContext
from penstock.tasks.decorator import TaskDecorator, task
from penstock.tasks.failure import describe_error, is_retryable, raised_at
from penstock.tasks.item import Item
from penstock.tasks.options import Options, OptionValues
from penstock.tasks.reader import Call
from penstock.tasks.registry import Registry
from penstock.tasks.request import Request
from penstock.tasks.result import encode_result
from penstock.tasks.retry_after import asked_wait
from penstock.tasks.schedule import CatchUp, Declaration, Overlap, Wins, declare
from penstock.tasks.settings import Settings, TaskValues
from penstock.tasks.suspended import Suspended
from penstock.tasks.task import AsyncContextTask, AsyncTask, SyncContextTask, SyncTask, Task
from penstock.tasks.timetable import Timetable
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
    "Settings",
    "Step",
    "Suspended",
    "SyncBatchContext",
    "SyncContext",
    "SyncContextTask",
    "SyncTask",
    "Task",
    "TaskDecorator",
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
