"""What Prometheus scrapes."""

from penstock.service.metrics.process import ProcessMetrics
from penstock.service.metrics.queues import DatabaseDown, QueueMetrics

__all__ = ["DatabaseDown", "ProcessMetrics", "QueueMetrics"]
