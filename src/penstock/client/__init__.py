"""What callers do with jobs: enqueue, look, wait, change."""

from penstock.client.audit import AuditEntry, AuditPage
from penstock.client.batch import BatchHandle, BatchId, BatchPage, BatchState, BatchStatus
from penstock.client.batches import BatchOptions, Callback
from penstock.client.client import Client
from penstock.client.connector import Link
from penstock.client.enqueue import Enqueued, JobId, JobStatus, Page
from penstock.client.events import KeptEvent, SentEvent
from penstock.client.failed import DeadFilter, DeadGroup, DeadSummary, Purged, Redriven
from penstock.client.keys import Admitted, Key, NewKey, Role, Scope
from penstock.client.loops import Portal
from penstock.client.schedules import Fire, Schedule
from penstock.client.settings import LaneSettings, Limit, Plan, QueueSettings, Retention, Tenant
from penstock.client.snapshots import JobNow, OwnerNow, Present, SubjectKind
from penstock.client.sync import SyncBatchHandle, SyncClient
from penstock.client.users import Credentials, LoggedIn, NewLogin, Person
from penstock.client.workflow import (
    Started,
    WorkflowId,
    WorkflowPage,
    WorkflowState,
    WorkflowStatus,
    WorkflowStep,
)

__all__ = [
    "Admitted",
    "AuditEntry",
    "AuditPage",
    "BatchHandle",
    "BatchId",
    "BatchOptions",
    "BatchPage",
    "BatchState",
    "BatchStatus",
    "Callback",
    "Client",
    "Credentials",
    "DeadFilter",
    "DeadGroup",
    "DeadSummary",
    "Enqueued",
    "Fire",
    "JobId",
    "JobNow",
    "JobStatus",
    "KeptEvent",
    "Key",
    "LaneSettings",
    "Limit",
    "Link",
    "LoggedIn",
    "NewKey",
    "NewLogin",
    "OwnerNow",
    "Page",
    "Person",
    "Plan",
    "Portal",
    "Present",
    "Purged",
    "QueueSettings",
    "Redriven",
    "Retention",
    "Role",
    "Schedule",
    "Scope",
    "SentEvent",
    "Started",
    "SubjectKind",
    "SyncBatchHandle",
    "SyncClient",
    "Tenant",
    "WorkflowId",
    "WorkflowPage",
    "WorkflowState",
    "WorkflowStatus",
    "WorkflowStep",
]
