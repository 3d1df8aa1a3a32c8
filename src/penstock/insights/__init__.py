"""What is going on in the queue, for everything that shows it: command line, service, dashboard."""

from penstock.insights.count import Count
from penstock.insights.health import Cause, Health
from penstock.insights.insights import COUNTED_OFTEN, Insights, Overview
from penstock.insights.job import JobInsight, Moment
from penstock.insights.lanes import LaneInsight, Lanes
from penstock.insights.limits import Holder, LimitInsight, Limits
from penstock.insights.place import Place
from penstock.insights.queues import QueueInsight
from penstock.insights.running import FailedJob, RunningJob
from penstock.insights.steps import StepInsight
from penstock.insights.tenant import TenantInsights
from penstock.insights.thresholds import Thresholds
from penstock.insights.throughput import Ended, Percentiles, Throughput
from penstock.insights.turn import Turn
from penstock.insights.wait import Wait
from penstock.insights.window import Window
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
