"""Show what Penstock does: thousands of jobs, a worker that is killed, and no job lost."""

from penstock.demo.run import run_demo
from penstock.demo.summary import DemoSummary

__all__ = ["DemoSummary", "run_demo"]
