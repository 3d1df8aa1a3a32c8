"""Execute the queue's SQL. No other package executes it."""

from penstock.store.claim import ClaimedJob, LaneCursor
from penstock.store.connection import (
    Connection,
    Executor,
    Pool,
    close_idle,
    connect,
    is_behind_pooler,
    is_transaction_pooled,
    open_pool,
    receives_notifications,
)
from penstock.store.drivers import adapt, drive, is_in_transaction
from penstock.store.errors import RoleRights, permission_error, read_role_rights
from penstock.store.rows import job_from, key_of
from penstock.store.settle import Answer, Settlement
from penstock.store.statement import Statement
from penstock.store.store import Store

__all__ = [
    "Answer",
    "ClaimedJob",
    "Connection",
    "Executor",
    "LaneCursor",
    "Pool",
    "RoleRights",
    "Settlement",
    "Statement",
    "Store",
    "adapt",
    "close_idle",
    "connect",
    "drive",
    "is_behind_pooler",
    "is_in_transaction",
    "is_transaction_pooled",
    "job_from",
    "key_of",
    "open_pool",
    "permission_error",
    "read_role_rights",
    "receives_notifications",
]
