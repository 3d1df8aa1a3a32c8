"""What those ask who keep a service running: is it ready, is the queue well, how much goes on."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from prometheus_client import CollectorRegistry
from starlette.requests import HTTPConnection

from penstock.app.app import Penstock
from penstock.insights import Health, Thresholds
from penstock.service.cache import Fresh
from penstock.service.hosts import Entry, address_of
from penstock.service.metrics import DatabaseDown, ProcessMetrics, QueueMetrics
from penstock.service.readiness import Readiness

# It reads thousands of rows: seldom enough not to be felt, often enough to be true.
HEALTH_KEPT: Final = 5.0


class Operations:
    """Probes, health and metrics of one service; each looks at the database seldom."""

    def __init__(
        self,
        app: Penstock,
        entry: Entry,
        *,
        thresholds: Thresholds | None = None,
        open_metrics: bool = False,
    ) -> None:
        self._app = app
        self._entry = entry
        self._thresholds = thresholds or Thresholds.of()
        self._open_metrics = open_metrics
        self.readiness = Readiness(app)
        self.health = Fresh(HEALTH_KEPT, self._health)
        self.registry = CollectorRegistry()
        self.queues = QueueMetrics(app, self.registry)
        self.registry_of_down = CollectorRegistry()
        self.registry_of_down.register(DatabaseDown())
        self._process = ProcessMetrics(app.events, self.queues.declared, self.registry)

    async def _health(self) -> Health:
        return await (await self._app.insights()).health(self._thresholds)

    def shows_metrics_to(self, connection: HTTPConnection) -> bool:
        """Whether the metrics are open to whoever this is: to this machine alone, if at all."""
        if not self._open_metrics:
            return False
        try:
            return ip_address(address_of(connection, self._entry)).is_loopback
        except ValueError:
            return False

    def close(self) -> None:
        """Count no more."""
        self._process.close()
