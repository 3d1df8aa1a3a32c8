"""Batches: many jobs as one, with exact counts and callbacks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.client import filters
from penstock.client.batch import (
    Batch,
    BatchId,
    BatchPage,
    BatchState,
    BatchStatus,
    batch_id_of,
    batch_key,
    status_from,
)
from penstock.client.callbacks import Callback, callbacks_of
from penstock.client.dead import DeadCalls
from penstock.client.letters import Redriven
from penstock.client.waiting import Patience
from penstock.errors import BatchNotFound, BatchTimeout, ConfigError
from penstock.job import Job
from penstock.store.batches import Batches
from penstock.store.enqueue import Links
from penstock.tasks import Request
from penstock.tasks.options import CHECKS, whole

if TYPE_CHECKING:
    from penstock.client.enqueued import Enqueued

T = TypeVar("T")

logger = logging.getLogger("penstock")

LONGEST_PAGE: Final = 1000
LONGEST_NAME: Final = 500
CANCELLED_AT_ONCE: Final = 500
STATES: Final = ("open", "running", "finished")


class BatchCalls(DeadCalls):
    """The calls for batches. What failed in one are dead letters; they are run again as such."""

    if TYPE_CHECKING:  # what Client brings

        async def _enqueue(
            self, requests: Iterable[Request[T]], links: Links
        ) -> list[Enqueued[T]]: ...

    async def open_batch(
        self,
        name: str | None = None,
        *,
        on_success: Callback | None = None,
        on_end: Callback | None = None,
        on_failure: Callback | None = None,
        tenant: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> Batch:
        """Begin a batch; it stays open until `close`, from here or from any process.

        The callbacks are jobs, each enqueued once: `on_failure` when a first job has failed,
        `on_success` when all have completed, `on_end` when all have ended, whatever came of them.
        """
        if self._tenant is not None:
            tenant = self._tenant.named(tenant)
        tenant = CHECKS["tenant"]("tenant", tenant)
        callbacks = callbacks_of(
            tenant, {"success": on_success, "end": on_end, "failure": on_failure}
        )
        stored = (tenant, _name(name), callbacks, CHECKS["meta"]("meta", meta))
        made = await self._ask(lambda on: Batches(self.store).open(on, *stored), again=False)
        return Batch(self, str(made), tenant)

    def batch(
        self,
        name: str | None = None,
        *,
        on_success: Callback | None = None,
        on_end: Callback | None = None,
        on_failure: Callback | None = None,
        tenant: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> AbstractAsyncContextManager[Batch]:
        """A batch that is closed at the end of the block.

            async with app.batch("import", on_success=publish.prepare(42)) as batch:
                await batch.enqueue_many(index.prepare(page) for page in pages)

        Its jobs run as soon as they are added. If the block raises, the batch is cancelled: what
        has not run will not, and `on_success` never comes, since it is not what was to be in it.
        """
        opening = self.open_batch(
            name,
            on_success=on_success,
            on_end=on_end,
            on_failure=on_failure,
            tenant=tenant,
            meta=meta,
        )
        return self._block(opening)

    @asynccontextmanager
    async def _block(self, opening: Awaitable[Batch]) -> AsyncIterator[Batch]:
        batch = await opening
        try:
            yield batch
        except BaseException:
            await self._give_up(batch)
            raise
        await batch.close()

    async def _give_up(self, batch: Batch) -> None:
        """What the block raised is what its caller must hear of, whatever comes of this."""
        try:
            await batch.cancel("batch_failed")
        except Exception as error:
            logger.warning("Batch %s could not be cancelled: %s", batch.id, error)

    async def get_batch(self, batch: BatchId) -> Batch:
        """A batch to add to, by its id, or by a job of it.

            batch = await app.get_batch(ctx.job)        # in a handler: the batch of this job
            await batch.enqueue(index, page)

        A job that runs may add to its own batch even when that is closed: it cannot be finished
        before the job is.
        """
        status = await self.batch_status(batch)
        adder = batch.id if isinstance(batch, Job) and batch.batch else None
        return Batch(self, status.id, status.tenant, adder)

    async def batch_status(self, batch: BatchId) -> BatchStatus:
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
            raise ConfigError("state", state, f"one of {', '.join(STATES)}")
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
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        patience = Patience(seconds)
        while not (status := await self.batch_status(batch)).is_finished:
            if patience.is_over:
                raise BatchTimeout(status.id, status.state, status.pending, seconds or 0.0)
            await patience.pause()
        return status

    async def close_batch(self, batch: BatchId) -> None:
        """Let nobody but its own jobs add to a batch; it is finished when nothing pends."""
        await self._close(batch, cancel=False)

    async def cancel_batch(self, batch: BatchId, reason: str = "requested") -> int:
        """Close a batch and end all that pends, running or not: how many jobs.

        `on_end` comes all the same, `on_success` never.
        """
        return [number async for number in self.cancelling_batch(batch, reason)][-1]

    async def cancelling_batch(
        self, batch: BatchId, reason: str = "requested"
    ) -> AsyncIterator[int]:
        """As `cancel_batch`, with how many it has come to after each piece of 500 jobs."""
        key = await self._close(batch, cancel=True)
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

    async def retry_batch(self, batch: BatchId, *, rate: float | str | None = None) -> Redriven:
        """Run again those jobs of a batch that have failed; what it came to, as of `redrive`.

        A finished batch goes on then; if all completes this time, `on_success` comes.
        """
        status = await self.batch_status(batch)
        return await self.redrive(batch=status.id, rate=rate)

    async def _close(self, batch: BatchId, *, cancel: bool) -> int:
        batch_id = batch_id_of(batch)
        key = batch_key(batch_id)
        if not await self._ask(lambda on: Batches(self.store).close(on, key, cancel=cancel)):
            raise BatchNotFound(batch_id)
        return key


def _name(name: Any) -> str | None:
    filters.texts(name=name)
    if name is not None and not 1 <= len(name) <= LONGEST_NAME:
        raise ConfigError("name", name, f"1 to {LONGEST_NAME} characters")
    return None if name is None else str(name)
