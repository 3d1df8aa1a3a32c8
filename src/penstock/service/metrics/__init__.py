"""What Prometheus scrapes."""

from penstock.service.metrics.process import ProcessMetrics
from penstock.service.metrics.queues import QueueMetrics

__all__ = ["ProcessMetrics", "QueueMetrics"]
