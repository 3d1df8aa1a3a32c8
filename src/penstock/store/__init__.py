"""The only module that executes the queue's SQL."""

from penstock.store.claim import ClaimedJob, Line
from penstock.store.connection import (
    Connection,
    Executor,
    Pool,
    close_idle,
    connect,
    hears,
    lends,
    open_pool,
    stands_between,
)
from penstock.store.drivers import adapt, drive, is_in_transaction
from penstock.store.errors import Standing, refusal, standing
from penstock.store.rows import job_from, key_of
from penstock.store.settle import Answer, Settlement
from penstock.store.statement import Statement
from penstock.store.store import Store

__all__ = [
    "Answer",
    "ClaimedJob",
    "Connection",
    "Executor",
    "Line",
    "Pool",
    "Settlement",
    "Standing",
    "Statement",
    "Store",
    "adapt",
    "close_idle",
    "connect",
    "drive",
    "hears",
    "is_in_transaction",
    "job_from",
    "key_of",
    "lends",
    "open_pool",
    "refusal",
    "standing",
    "stands_between",
]
