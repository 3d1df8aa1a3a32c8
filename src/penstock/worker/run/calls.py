"""Runs handlers that take many jobs: one call for all, and what came of each.

An error of one item must not cost the others: a call that raises is made again for each half of its
items, until the guilty one is alone and fails with its own error.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from penstock.errors import StaleAttempt
from penstock.tasks import Context, Item, NotNow, Task
from penstock.tasks.handler.failure import retry_after, unawaited
from penstock.tasks.handler.waits import suspension
from penstock.worker.attempt import Attempt
from penstock.worker.claim.micro_batch import Entry
from penstock.worker.claim.queue import QueueState
from penstock.worker.run.budgets import Budgets
from penstock.worker.run.context import CallContext
from penstock.worker.run.items import ItemAttempt, SharedCall
from penstock.worker.run.journal import Journal
from penstock.worker.run.outcomes import Outcomes
from penstock.worker.run.resources import Offers
from penstock.worker.run.threads import Bridge, in_thread

logger = logging.getLogger("penstock.worker")


class Calls:
    """Starts calls and hands the outcomes of their items on."""

    def __init__(
        self,
        endings: Outcomes,
        context: Callable[[Attempt], Context],
        threads: ThreadPoolExecutor,
        opened: Offers,
        budgets: Budgets,
        journal: Journal,
        bridge: Bridge,
    ) -> None:
        self._endings = endings
        self._context = context
        self._threads = threads
        self._opened = opened
        self._budgets = budgets
        self._journal = journal
        self._bridge = bridge
        self._loop = asyncio.get_running_loop()

    def start(
        self, task: Task[Any, Any], entries: Iterable[Entry], state: QueueState, worker: str
    ) -> SharedCall:
        """Start the call of some items; each is an attempt of its own with its own timeout."""
        call = self.prepare(task, entries, state, worker)
        body = self._run(call)
        if sys.version_info >= (3, 12):
            call.future = asyncio.Task(body, loop=self._loop, eager_start=True)
        else:
            call.future = self._loop.create_task(body)
        for attempt in call.attempts:
            attempt.future = call.future
        if not call.future.done():
            self._begin_timeouts(call)
        return call

    def prepare(
        self, task: Task[Any, Any], entries: Iterable[Entry], state: QueueState, worker: str
    ) -> SharedCall:
        """The call of some items, which does not begin yet."""
        call = SharedCall(task, state)
        on_stop = partial(self._stopped, call)
        for job, value in entries:
            job.worker = worker
            call.add(ItemAttempt(job, value, call, on_stop))
        return call

    async def run_alone(self, call: SharedCall, value: Any) -> None:
        """Run the prepared call of one item, whose value is known only now."""
        call.attempts[0].value = value
        await self._run(call)

    def _begin_timeouts(self, call: SharedCall) -> None:
        for attempt in call.attempts:
            if attempt.job.timeout is not None and not attempt.is_settled:
                attempt.limit(self._loop, attempt.job.timeout)

    def _stopped(self, call: SharedCall, attempt: ItemAttempt) -> None:
        """One item is told to stop: it is settled, and the call ends if it was the last."""
        if not attempt.is_settled:
            self._endings.interrupted(attempt, asyncio.CancelledError())
        if call.is_over and call.future is not None and not call.future.done():
            call.future.cancel()

    async def _run(self, call: SharedCall) -> None:
        parts: list[Sequence[ItemAttempt]] = [call.attempts]
        while parts:
            part = [attempt for attempt in parts.pop() if attempt.is_wanted]
            if not part:
                continue
            try:
                values = await self._answers(call, part)
            except BaseException as error:
                if not call.is_over:
                    parts.extend(reversed(await self._raised(call, part, error)))
            else:
                await self._returned(part, values)

    # The handler

    async def _answers(self, call: SharedCall, part: list[ItemAttempt]) -> object:
        """What the handler says of some items."""
        given: tuple[Any, ...] = (
            [Item(attempt.value, self._context(attempt)) for attempt in part],
        )
        if call.task.takes_context:
            context = CallContext(call, len(part), self._opened, self._budgets, self._bridge)
            given = (context, *given)
        if call.task.is_async:
            return await call.task.fn(*given)
        return await self._in_thread(call, given)

    async def _in_thread(self, call: SharedCall, given: tuple[Any, ...]) -> object:
        thread = self._threads.submit(in_thread, call.task.fn, *given)
        returned = asyncio.wrap_future(thread, loop=self._loop)
        try:
            return await asyncio.shield(returned)
        except asyncio.CancelledError:
            if call.is_over and not thread.cancel() and not thread.done():
                # A thread cannot be stopped: it keeps its slot until it returns.
                for attempt in call.attempts:
                    attempt.overdue = True
                logger.warning(
                    "All items of a call of %s were stopped (%s); its thread keeps its slot.",
                    call.task.name,
                    call.stopped,
                )
                await asyncio.wait([returned])
                if not returned.cancelled():
                    returned.exception()
            raise

    # What came of it

    async def _returned(self, part: list[ItemAttempt], values: object) -> None:
        try:
            outcomes = _outcomes(part, values)
        except Exception as problem:
            await self._fail(part, problem)
            return
        failed: list[tuple[ItemAttempt, BaseException]] = []
        for attempt, value in zip(part, outcomes, strict=True):
            if isinstance(value, BaseException):
                failed.append((attempt, value))
            elif attempt.is_wanted:
                self._endings.returned(attempt, value)
        for attempt, error in failed:
            await self._fail([attempt], error)

    async def _raised(
        self, call: SharedCall, part: list[ItemAttempt], error: BaseException
    ) -> list[list[ItemAttempt]]:
        """The items to call the handler for again, in parts; the others have failed."""
        if len(part) == 1 or is_of_all(error, call.task):
            await self._fail(part, error)
            return []
        if isinstance(error, StaleAttempt):
            refused = [attempt for attempt in part if attempt.stopped is not None]
            await self._fail(refused, error)
            if refused:
                return [[attempt for attempt in part if attempt.is_wanted]]
        part = await self._uncompleted(part, error)
        middle = (len(part) + 1) // 2
        return [part[:middle], part[middle:]]

    async def _uncompleted(
        self, part: list[ItemAttempt], error: BaseException
    ) -> list[ItemAttempt]:
        """Those that ctx.complete has not ended: its transaction may have been rolled back."""
        claimed = [attempt for attempt in part if attempt.completed]
        if not claimed:
            return part
        try:
            done = await self._journal.completed(claimed)
        except Exception as doubt:
            # Their settle asks the same, and goes on asking while the database is away.
            logger.warning("What a call of %s has completed is not known: %r", part[0].task, doubt)
            done = {attempt.job.id for attempt in claimed}
        for attempt in claimed:
            if attempt.job.id in done:
                self._endings.raised(attempt, error)
            else:
                attempt.completed = False
        return [attempt for attempt in part if attempt.is_wanted]

    async def _fail(self, part: Sequence[ItemAttempt], error: BaseException) -> None:
        """All these items have failed with the error, or must wait for what it says."""
        lanes: dict[str, list[ItemAttempt]] = {}
        for attempt in part:
            lanes.setdefault(attempt.job.row["lane"], []).append(attempt)
        for attempts in lanes.values():
            heeded = await self._endings.heed(attempts[0], error, len(attempts))
            for attempt in attempts:
                if attempt.is_wanted:
                    self._endings.raised(attempt, heeded)


def is_of_all(error: BaseException, task: Task[Any, Any]) -> bool:
    """Whether an error is about no item: an empty budget, a server that refuses, an outage.

    A sleep or a wait for an event is one item's own, and found as a failure is.
    """
    assert task.settings.batch is not None
    if isinstance(suspension(error), NotNow) or retry_after(error) is not None:
        return True
    outages = tuple(task.settings.batch.fails_all)
    if isinstance(error, BaseExceptionGroup):
        return error.split(outages)[1] is None
    return isinstance(error, outages)


def _outcomes(part: list[ItemAttempt], values: Any) -> list[Any]:
    """What a handler returned, as an outcome for each item; raises what is wrong with the whole."""
    task = part[0].task
    if isinstance(values, Awaitable):
        remedy = "`await` it, in an `async def`"
        raise TypeError(unawaited(f"The handler of {task.name}", values, remedy))
    wanted = f"it must return a list with one outcome for each of its {len(part)} items, in order"
    if not _is_list(values):
        raise TypeError(f"The handler of {task.name} returned a {type(values).__name__}: {wanted}.")
    outcomes = list(values)
    if len(outcomes) != len(part):
        raise ValueError(f"The handler of {task.name} returned {len(outcomes)} outcomes: {wanted}.")
    return outcomes


def _is_list(values: object) -> bool:
    """Whether it holds outcomes in order: a list, a tuple, an array; not what has keys or no order.

    What has keys may yield those instead: a dict, a frame of columns.
    """
    if isinstance(values, list | tuple):
        return True
    if isinstance(values, str | bytes | bytearray | memoryview) or hasattr(values, "keys"):
        return False
    return isinstance(values, Sized) and hasattr(values, "__getitem__")
