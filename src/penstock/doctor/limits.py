"""From where on something is worth a warning or an error: all thresholds in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, unless the name says otherwise.

    await examine(url, limits=Limits(snapshot_warning=60))
    """

    # What the doctor itself may cost.
    reading: float = 5.0
    sample_jobs: int = 10_000

    oldest_postgres: int = 15
    latency_warning: float = 0.1
    clock_warning: float = 2.0
    clock_error: float = 60.0
    connections_warning_share: float = 0.8
    connections_error_share: float = 0.95

    # The queue keeps its speed under an old snapshot; its tables grow all the same.
    snapshot_warning: float = 900.0
    snapshot_error: float = 4 * 3600.0
    snapshot_warning_transactions: int = 5_000_000
    snapshot_error_transactions: int = 100_000_000
    dead_rows: int = 100_000
    dead_rows_per_live: float = 2.0
    bloat_bytes: int = 256 * 1024 * 1024
    bloat_factor: float = 4.0

    partitions_warning_days: int = 4
    partitions_error_days: int = 2
    expired_days: int = 2
    # How many connections should be able to read the whole history at once.
    history_readers: int = 20

    # A heartbeat is due at least twice in a lease's length.
    silent_share: float = 0.5
    leaderless: float = 15.0
    # What a worker may still be busy with after its start: opening resources, beginning to listen.
    starting: float = 30.0

    stuck_error: float = 3600.0
    lost: float = 30.0
    overtime: float = 120.0
    overdue: float = 60.0
    batch_open: float = 86_400.0
    batch_over: float = 300.0
    unserved: float = 30.0
    closed: float = 600.0
    # Workers give back within two seconds what they have no use for.
    idle_grant: float = 3.0
    laneless_jobs: int = 100
    failures_warning_hourly: int = 10
    failures_error_hourly: int = 1000
