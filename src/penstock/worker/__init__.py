"""The worker: claims jobs, runs them and settles their outcomes."""

from penstock.worker.run.resources import Resources
from penstock.worker.settle.report import Tally
from penstock.worker.worker import Worker

__all__ = ["Resources", "Tally", "Worker"]
