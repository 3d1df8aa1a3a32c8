"""What callers do with jobs: enqueue, look, wait, change."""

from penstock.client.batch import Batch, BatchPage, BatchStatus
from penstock.client.client import Client
from penstock.client.enqueued import Enqueued, JobStatus, Page
from penstock.client.events import KeptEvent, SentEvent
from penstock.client.letters import DeadGroup, DeadSummary, Purged, Redriven
from penstock.client.link import Link
from penstock.client.portal import Portal
from penstock.client.schedules import Fire, Schedule
from penstock.client.settings import LaneSettings, Limit, Plan, QueueSettings, Retention, Tenant
from penstock.client.sync import SyncClient
from penstock.client.sync_batch import SyncBatch
from penstock.client.workflow import Started, WorkflowPage, WorkflowStatus, WorkflowStep

__all__ = [
    "Batch",
    "BatchPage",
    "BatchStatus",
    "Client",
    "DeadGroup",
    "DeadSummary",
    "Enqueued",
    "Fire",
    "JobStatus",
    "KeptEvent",
    "LaneSettings",
    "Limit",
    "Link",
    "Page",
    "Plan",
    "Portal",
    "Purged",
    "QueueSettings",
    "Redriven",
    "Retention",
    "Schedule",
    "SentEvent",
    "Started",
    "SyncBatch",
    "SyncClient",
    "Tenant",
    "WorkflowPage",
    "WorkflowStatus",
    "WorkflowStep",
]
