"""What is going on in the queue, for everything that shows it: command line, service, dashboard."""

from penstock.insights.count import Count
from penstock.insights.insights import Insights, Overview
from penstock.insights.job import JobInsight, Moment
from penstock.insights.place import Place, Progress
from penstock.insights.queues import QueueInsight
from penstock.insights.running import FailedJob, RunningJob
from penstock.insights.throughput import Ended, Percentiles, Throughput
from penstock.insights.waiting import Wait
from penstock.insights.workers import WorkerInsight

__all__ = [
    "Count",
    "Ended",
    "FailedJob",
    "Insights",
    "JobInsight",
    "Moment",
    "Overview",
    "Percentiles",
    "Place",
    "Progress",
    "QueueInsight",
    "RunningJob",
    "Throughput",
    "Wait",
    "WorkerInsight",
]
