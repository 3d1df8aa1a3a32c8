"""Batches: many jobs as one, with exact counts and callbacks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, Unpack

from penstock.client import scope
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
from penstock.client.enqueue import Enqueuing
from penstock.client.failed import DeadCalls, Redriven
from penstock.client.reasons import ReasonCalls
from penstock.client.wait import seconds_of
from penstock.errors import BadArgument, BatchNotFound, BatchTimeout, Misuse, TenantMismatch
from penstock.job import Job
from penstock.store.batches import Batches
from penstock.store.enqueue import stored_form
from penstock.tasks import Request, Task
from penstock.tasks.options import CHECKS
from penstock.tasks.registry import not_a_task

if TYPE_CHECKING:
    from penstock.client.scope import AsTenant


Callback: TypeAlias = Request[Any] | Task[..., Any]

# The batch says when, and that it is once.
_NOT_CALLED: Final = ("run_at", "deadline", "idempotency_key")


def callbacks_of(tenant: str, given: Mapping[str, Callback | None]) -> dict[str, dict[str, Any]]:
    """The stored forms by their moments; of a tenant's batch all are that tenant's."""
    return {
        moment: _form(f"on_{moment}", what, tenant)
        for moment, what in given.items()
        if what is not None
    }


def _form(setting: str, what: Any, tenant: str) -> dict[str, Any]:
    request = what.prepare() if isinstance(what, Task) else what
    if not isinstance(request, Request):
        raise Misuse(not_a_task(setting, what), setting)
    options = request.options
    for option in _NOT_CALLED:
        if (value := getattr(options, option)) is not None:
            raise Misuse(
                f"The request of {setting} has the option {option}, {value!r}: leave it out, since "
                "the batch says when it runs, and once.",
                option,
            )
    if options.unique is not None and options.unique.on_conflict == "raise":
        raise Misuse(
            f"The request of {setting} raises where its unique key is held, and nobody would hear "
            "of it: choose skip, replace or supersede.",
            "on_conflict",
        )
    if tenant and options.tenant not in ("", tenant):
        raise TenantMismatch(options.tenant, tenant)
    own = {"tenant": options.tenant} if options.tenant else {}
    return stored_form(request) | own


LONGEST_NAME: Final = 500


class BatchOptions(TypedDict, total=False):
    """What may be said of a new batch: its callbacks, whose it is, and anything else as `meta`."""

    on_success: Callback | None
    on_end: Callback | None
    on_failure: Callback | None
    tenant: str
    meta: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Opening:
    """A new batch as it is stored."""

    tenant: str
    name: str | None
    callbacks: Mapping[str, Any]
    meta: str | None

    @classmethod
    def of(cls, name: str | None, options: BatchOptions, tenant: AsTenant | None) -> Opening:
        if unknown := options.keys() - BatchOptions.__optional_keys__:
            raise TypeError(f"There is no option {', '.join(sorted(unknown))} for a batch.")
        owner = options.get("tenant", "")
        if tenant is not None:
            owner = tenant.named(owner)
        owner = CHECKS["tenant"]("tenant", owner)
        given: dict[str, Callback | None] = {
            "success": options.get("on_success"),
            "end": options.get("on_end"),
            "failure": options.get("on_failure"),
        }
        meta = CHECKS["meta"]("meta", options.get("meta"))
        return cls(owner, _name(name), callbacks_of(owner, given), meta)


def _name(name: Any) -> str | None:
    scope.texts(name=name)
    if name is not None and not 1 <= len(name) <= LONGEST_NAME:
        raise BadArgument("name", name, f"1 to {LONGEST_NAME} characters")
    return None if name is None else str(name)


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
        scope.texts(tenant=tenant, name=name)
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

    async def why_batch(self, batch: BatchId) -> str:
        """Why a batch is not finished: some of its jobs, each with what it waits for."""
        key = batch_key(batch_id_of(batch))
        if await self._ask(lambda on: Batches(self.store).is_finished(on, key)) is None:
            raise BatchNotFound(str(key))
        return await self._why_jobs(batch=key)

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
