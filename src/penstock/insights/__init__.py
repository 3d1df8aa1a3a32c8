"""Read the state of the queue, for the command line, the service and the dashboard."""

from penstock.insights.counts import Count
from penstock.insights.health import Cause, Health, Thresholds
from penstock.insights.insights import MAX_COUNTED_OFTEN, Insights, Overview
from penstock.insights.job import FailedJob, JobInsight, Moment, Place, RunningJob, StepInsight
from penstock.insights.limits import Holder, LimitInsight, Limits
from penstock.insights.queues import LaneInsight, Lanes, QueueInsight, Window
from penstock.insights.tenant import TenantInsights
from penstock.insights.throughput import Ended, Percentiles, Throughput
from penstock.insights.waits import QueuePosition, Wait
from penstock.insights.workers import Grant, Unwritten, WorkerInsight, WorkerPage
from penstock.job import Progress

__all__ = [
    "MAX_COUNTED_OFTEN",
    "Cause",
    "Count",
    "Ended",
    "FailedJob",
    "Grant",
    "Health",
    "Holder",
    "Insights",
    "JobInsight",
    "LaneInsight",
    "Lanes",
    "LimitInsight",
    "Limits",
    "Moment",
    "Overview",
    "Percentiles",
    "Place",
    "Progress",
    "QueueInsight",
    "QueuePosition",
    "RunningJob",
    "StepInsight",
    "TenantInsights",
    "Thresholds",
    "Throughput",
    "Unwritten",
    "Wait",
    "Window",
    "WorkerInsight",
    "WorkerPage",
]
