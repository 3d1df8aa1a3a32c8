"""Keeps the queues in order: what only the leader does, and what every worker does."""

from penstock.maintenance.maintenance import Maintenance

__all__ = ["Maintenance"]
