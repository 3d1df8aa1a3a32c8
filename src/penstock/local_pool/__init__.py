"""Small calls that may be dropped, run beside what asks for them: no job, no database."""

from penstock.local_pool.pool import LocalPool
from penstock.local_pool.pools import LocalPools
from penstock.local_pool.submitted import PoolCounts
from penstock.local_pool.sync import SyncLocalPool

__all__ = ["LocalPool", "LocalPools", "PoolCounts", "SyncLocalPool"]
