"""The worker: from a claim to a settle."""

from penstock.worker.resources import Resources
from penstock.worker.tally import Tally
from penstock.worker.worker import Worker

__all__ = ["Resources", "Tally", "Worker"]
