"""All checks, in the order in which a person would look."""

from penstock.doctor.check import AnyCheck
from penstock.doctor.checks.app import APP
from penstock.doctor.checks.batches import BATCHES
from penstock.doctor.checks.bloat import BLOAT
from penstock.doctor.checks.clock import CLOCK
from penstock.doctor.checks.closed_buckets import CLOSED_BUCKETS
from penstock.doctor.checks.connection import CONNECTION
from penstock.doctor.checks.connections import CONNECTIONS
from penstock.doctor.checks.expired import EXPIRED
from penstock.doctor.checks.failed import FAILED
from penstock.doctor.checks.idle_grants import IDLE_GRANTS
from penstock.doctor.checks.laneless import LANELESS
from penstock.doctor.checks.late import LATE
from penstock.doctor.checks.leader import LEADER
from penstock.doctor.checks.locks import LOCKS
from penstock.doctor.checks.lost import LOST
from penstock.doctor.checks.notifications import NOTIFICATIONS
from penstock.doctor.checks.overdue import OVERDUE
from penstock.doctor.checks.overtime import OVERTIME
from penstock.doctor.checks.partitions import PARTITIONS
from penstock.doctor.checks.paused import PAUSED
from penstock.doctor.checks.paused_lanes import PAUSED_LANES
from penstock.doctor.checks.pooler import POOLER
from penstock.doctor.checks.resources import RESOURCES
from penstock.doctor.checks.rights import RIGHTS
from penstock.doctor.checks.schedules import SCHEDULES
from penstock.doctor.checks.schema import SCHEMA
from penstock.doctor.checks.settings import SETTINGS
from penstock.doctor.checks.shut_limits import SHUT_LIMITS
from penstock.doctor.checks.snapshots import SNAPSHOTS
from penstock.doctor.checks.stuck import STUCK
from penstock.doctor.checks.unserved import UNSERVED
from penstock.doctor.checks.unserved_tenants import UNSERVED_TENANTS
from penstock.doctor.checks.versions import VERSIONS
from penstock.doctor.checks.windows import WINDOWS
from penstock.doctor.checks.workers import WORKERS

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
