"""Keeps the queues in order. Some of this work only the leader does, some every worker does."""

from penstock.maintenance.maintenance import Maintenance

__all__ = ["Maintenance"]
