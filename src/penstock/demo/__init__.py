"""A show of what Penstock does: thousands of jobs, a worker that is killed, and nothing lost."""

from penstock.demo.run import run_demo
from penstock.demo.summary import Ended

__all__ = ["Ended", "run_demo"]
