"""What is going on in the queue, for everything that shows it: command line, service, dashboard."""

from penstock.insights.counts import Count
from penstock.insights.health import Cause, Health, Thresholds
from penstock.insights.insights import COUNTED_OFTEN, Insights, Overview
from penstock.insights.job import FailedJob, JobInsight, Moment, Place, RunningJob, StepInsight
from penstock.insights.limits import Holder, LimitInsight, Limits
from penstock.insights.queues import LaneInsight, Lanes, QueueInsight, Window
from penstock.insights.tenant import TenantInsights
from penstock.insights.throughput import Ended, Percentiles, Throughput
from penstock.insights.waits import Turn, Wait
from penstock.insights.workers import Grant, Unwritten, WorkerInsight, WorkerPage
from penstock.job import Progress

__all__ = [
    "COUNTED_OFTEN",
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
    "RunningJob",
    "StepInsight",
    "TenantInsights",
    "Thresholds",
    "Throughput",
    "Turn",
    "Unwritten",
    "Wait",
    "Window",
    "WorkerInsight",
    "WorkerPage",
]
