"""Batches: many jobs as one, with exact counts and callbacks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Final, Unpack

from penstock.client import filters
from penstock.client.arguments import whole
from penstock.client.batch import (
    BatchHandle,
    BatchId,
    BatchPage,
    BatchState,
    BatchStatus,
    batch_id_of,
    batch_key,
    status_from,
)
from penstock.client.dead import DeadCalls
from penstock.client.enqueuing import Enqueuing
from penstock.client.letters import Redriven
from penstock.client.opening import BatchOptions, Opening
from penstock.client.reasons import ReasonCalls
from penstock.client.waiting import seconds_of
from penstock.errors import BadArgument, BatchNotFound, BatchTimeout
from penstock.job import Job
from penstock.store.batches import Batches

logger = logging.getLogger("penstock")

LONGEST_PAGE: Final = 1000
CANCELLED_AT_ONCE: Final = 500
STATES: Final = ("open", "running", "finished")


class BatchCalls(DeadCalls, Enqueuing, ReasonCalls):
    """The calls for batches. What failed in one are dead letters; they are run again as such.

    `by` says in the audit who closed, cancelled or retried one.
    """

    async def open_batch(
        self, name: str | None = None, **options: Unpack[BatchOptions]
    ) -> BatchHandle:
        """Begin a batch; it stays open until `close`, from here or from any process.

        The callbacks are jobs, each enqueued once: `on_failure` when a first job has failed,
        `on_success` when all have completed, `on_end` when all have ended, whatever came of them.
        """
        given = Opening.of(name, options, self._tenant)
        made = await self._ask(
            lambda on: Batches(self.store).open(
                on, given.tenant, given.name, given.callbacks, given.meta, by=self._by
            ),
            again=False,
        )
        return BatchHandle(self, str(made), given.tenant)

    def batch(
        self, name: str | None = None, **options: Unpack[BatchOptions]
    ) -> AbstractAsyncContextManager[BatchHandle]:
        """A batch that is closed at the end of the block.

            async with app.batch("import", on_success=publish.prepare(42)) as batch:
                await batch.enqueue_many(index.prepare(page) for page in pages)

        Its jobs run as soon as they are added. If the block raises, the batch is cancelled: what
        has not run will not, and `on_success` never comes, since it is not what was to be in it.
        """
        return self._block(self.open_batch(name, **options))

    @asynccontextmanager
    async def _block(self, opening: Awaitable[BatchHandle]) -> AsyncIterator[BatchHandle]:
        batch = await opening
        try:
            yield batch
        except BaseException:
            await self._give_up(batch)
            raise
        await batch.close()

    async def _give_up(self, batch: BatchHandle) -> None:
        """What the block raised is what its caller must hear of, whatever comes of this."""
        try:
            await batch.cancel("batch_failed")
        except Exception as error:
            logger.warning("Batch %s could not be cancelled: %s", batch.id, error)

    async def batch_handle(self, batch: BatchId) -> BatchHandle:
        """A batch to add to, by its id, or by a job of it.

            batch = await app.batch_handle(ctx.job)        # in a handler: the batch of this job
            await batch.enqueue(index, page)

        A job that runs may add to its own batch even when that is closed: it cannot be finished
        before the job is.
        """
        status = await self.get_batch(batch)
        adder = batch.id if isinstance(batch, Job) and batch.batch else None
        return BatchHandle(self, status.id, status.tenant, adder)

    async def get_batch(self, batch: BatchId) -> BatchStatus:
        """A batch as it is now; in a callback's handler by `ctx.job`."""
        batch_id = batch_id_of(batch)
        key = batch_key(batch_id)
        rows = await self._ask(lambda on: Batches(self.store).get(on, [key]))
        if not rows:
            raise BatchNotFound(batch_id)
        return status_from(rows[0])

    async def batches(
        self,
        *,
        state: BatchState | None = None,
        name: str | None = None,
        tenant: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> BatchPage:
        """Batches, newest first. Pass `page.after` as `after` for the next page."""
        whole("limit", limit, 1, LONGEST_PAGE)
        if state is not None and state not in STATES:
            raise BadArgument("state", state, f"one of {', '.join(STATES)}")
        if self._tenant is not None:
            tenant = self._tenant.named(tenant)
        filters.texts(tenant=tenant, name=name)
        start = batch_key(after) if after else None
        rows = await self._ask(
            lambda on: Batches(self.store).page(on, tenant, name, state, start, limit)
        )
        found = tuple(status_from(row) for row in rows)
        return BatchPage(found, found[-1].id if len(found) == limit else None)

    async def wait_batch(
        self, batch: BatchId, timeout: float | timedelta | None = None
    ) -> BatchStatus:
        """Wait until a batch is finished; raises BatchTimeout, never for what its jobs came to."""
        batch_id = batch_id_of(batch)
        key = batch_key(batch_id)

        async def look() -> bool:
            over = await self._ask(lambda on: Batches(self.store).is_finished(on, key))
            if over is None:
                raise BatchNotFound(batch_id)
            return over

        seconds = seconds_of(timeout)
        is_over = await self._until(bool, look, seconds)
        status = await self.get_batch(batch_id)
        if not is_over and not status.is_finished:
            why = await self._why(lambda: self.why_batch(batch_id), f"batch {batch_id}")
            raise BatchTimeout(status.id, status.state, status.pending, seconds or 0.0, why)
        return status

    async def close_batch(self, batch: BatchId, *, by: str | None = None) -> None:
        """Let nobody but its own jobs add to a batch; it is finished when nothing pends."""
        await self._close(batch, noted=True, by=by)

    async def cancel_batch(
        self, batch: BatchId, reason: str = "requested", *, by: str | None = None
    ) -> int:
        """Close a batch and end all that pends, running or not: how many jobs.

        `on_end` comes all the same, `on_success` never.
        """
        return [number async for number in self.cancelling_batch(batch, reason, by=by)][-1]

    async def cancelling_batch(
        self, batch: BatchId, reason: str = "requested", *, by: str | None = None
    ) -> AsyncIterator[int]:
        """As `cancel_batch`, with how many it has come to after each piece of 500 jobs."""
        key = await self._close(batch, reason, noted=True, by=by)
        number = after = 0
        while True:
            piece = await self._ask(
                partial(
                    Batches(self.store).cancel,
                    batch=key,
                    after=after,
                    limit=CANCELLED_AT_ONCE,
                    reason=reason,
                )
            )
            number, after = number + piece.cancelled, piece.last
            yield number
            if piece.found < CANCELLED_AT_ONCE:
                return

    async def retry_batch(
        self, batch: BatchId, *, rate: float | str | None = None, by: str | None = None
    ) -> Redriven:
        """Run again those jobs of a batch that have failed; what it came to, as of `redrive`.

        A finished batch goes on then; if all completes this time, `on_success` comes.
        """
        status = await self.get_batch(batch)
        return await self.redrive(batch=status.id, rate=rate, by=by)

    async def _close(
        self,
        batch: BatchId,
        reason: str | None = None,
        *,
        noted: bool = False,
        by: str | None = None,
    ) -> int:
        """Close a batch; with a reason it is given up. What its own handle does is no news."""
        batch_id = batch_id_of(batch)
        key, actor = batch_key(batch_id), self._actor(by)
        is_there = await self._ask(
            lambda on: Batches(self.store).close(on, key, reason, noted=noted, by=actor)
        )
        if not is_there:
            raise BatchNotFound(batch_id)
        return key
