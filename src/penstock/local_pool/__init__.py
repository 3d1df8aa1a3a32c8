"""Small calls that may be dropped. They run in this process, without a job or a database."""

from penstock.local_pool.call import PoolCounts
from penstock.local_pool.pool import LocalPool, SyncLocalPool
from penstock.local_pool.pools import LocalPools

__all__ = ["LocalPool", "LocalPools", "PoolCounts", "SyncLocalPool"]
