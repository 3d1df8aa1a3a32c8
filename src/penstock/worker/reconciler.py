"""Compares what the lease owns with what the worker knows, and gives strangers back."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.lifecycle import Budget, Health, Service
from penstock.store import Pool, Store
from penstock.worker.session import Session

logger = logging.getLogger("penstock.worker")


class Reconciler(Service):
    """After a lost answer to a claim, and now and then, releases jobs nobody here runs."""

    name = "reconciliation"

    def __init__(
        self,
        pool: Pool,
        store: Store,
        session: Session,
        health: Health,
        known: Callable[[], list[int]],
        every: float,
    ) -> None:
        super().__init__(health)
        self._pool = pool
        self._store = store
        self._session = session
        self._known = known
        self._budget = Budget(every)

    async def tick(self) -> float:
        async with self._session.undisturbed() as lease:
            if lease is not None:
                with self._budget:
                    released = await self._store.release(self._pool, lease, self._known())
                if released:
                    logger.warning(
                        "Jobs that were claimed without our knowing are given back: %d.", released
                    )
        return self._budget.rest
