"""What callers do with jobs: enqueue, look, wait, change."""

from penstock.client.client import Client
from penstock.client.enqueued import Enqueued, JobStatus, Page
from penstock.client.link import Link
from penstock.client.portal import Portal
from penstock.client.settings import LaneSettings, Limit, Plan, QueueSettings, Tenant
from penstock.client.sync import SyncClient

__all__ = [
    "Client",
    "Enqueued",
    "JobStatus",
    "LaneSettings",
    "Limit",
    "Link",
    "Page",
    "Plan",
    "Portal",
    "QueueSettings",
    "SyncClient",
    "Tenant",
]
