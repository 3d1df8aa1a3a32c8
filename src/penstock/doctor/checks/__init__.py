"""All checks, in the order in which they run and are reported."""

from penstock.doctor.check import AnyCheck
from penstock.doctor.checks.app import APP
from penstock.doctor.checks.database import (
    CLOCK,
    CONNECTION,
    CONNECTIONS,
    POOLER,
    RIGHTS,
    SCHEMA,
    SETTINGS,
)
from penstock.doctor.checks.jobs import (
    BATCHES,
    FAILED,
    LATE,
    LOST,
    OVERDUE,
    OVERTIME,
    SCHEDULES,
    STUCK,
)
from penstock.doctor.checks.queues import (
    CLOSED_BUCKETS,
    LANELESS,
    PAUSED,
    PAUSED_LANES,
    SHUT_LIMITS,
    UNSERVED,
    UNSERVED_TENANTS,
    WINDOWS,
)
from penstock.doctor.checks.storage import BLOAT, EXPIRED, LOCKS, PARTITIONS, SNAPSHOTS
from penstock.doctor.checks.workers import (
    IDLE_GRANTS,
    LEADER,
    NOTIFICATIONS,
    RESOURCES,
    VERSIONS,
    WORKERS,
)

CHECKS: tuple[AnyCheck, ...] = (
    CONNECTION,
    POOLER,
    RIGHTS,
    SCHEMA,
    CLOCK,
    SETTINGS,
    CONNECTIONS,
    SNAPSHOTS,
    BLOAT,
    PARTITIONS,
    EXPIRED,
    LOCKS,
    WORKERS,
    VERSIONS,
    RESOURCES,
    LEADER,
    NOTIFICATIONS,
    IDLE_GRANTS,
    UNSERVED,
    UNSERVED_TENANTS,
    STUCK,
    LOST,
    OVERTIME,
    OVERDUE,
    SCHEDULES,
    BATCHES,
    PAUSED,
    PAUSED_LANES,
    WINDOWS,
    SHUT_LIMITS,
    CLOSED_BUCKETS,
    LANELESS,
    LATE,
    FAILED,
    APP,
)

__all__ = ["APP", "CHECKS", "CONNECTION"]
