"""Runs handlers that take many jobs: one call for all, with an outcome for each.

An error of one item must not fail the other items. If a call raises, the handler is called again
for each half of its items, until the bad item is alone and fails with its own error.
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
from penstock.tasks.handler.failure import describe_unawaited, retry_after
from penstock.tasks.handler.waits import suspension
from penstock.worker.attempt import Attempt
from penstock.worker.claim.micro_batch import GatheredJob
from penstock.worker.claim.queue import QueueState
from penstock.worker.run.budgets import Budgets
from penstock.worker.run.context import CallContext
from penstock.worker.run.items import ItemAttempt, SharedCall
from penstock.worker.run.journal import Journal
from penstock.worker.run.outcomes import Outcomes
from penstock.worker.run.resources import OpenResources
from penstock.worker.run.threads import Bridge, call_in_thread

logger = logging.getLogger("penstock.worker")


class SharedCalls:
    """Starts shared calls, and passes on the outcomes of their items."""

    def __init__(
        self,
        outcomes: Outcomes,
        context: Callable[[Attempt], Context],
        threads: ThreadPoolExecutor,
        resources: OpenResources,
        budgets: Budgets,
        journal: Journal,
        bridge: Bridge,
    ) -> None:
        self._outcomes = outcomes
        self._context = context
        self._threads = threads
        self._resources = resources
        self._budgets = budgets
        self._journal = journal
        self._bridge = bridge
        self._loop = asyncio.get_running_loop()

    def start(
        self, task: Task[Any, Any], entries: Iterable[GatheredJob], state: QueueState, worker: str
    ) -> SharedCall:
        """Start a call for some items. Each item is an attempt of its own, with its own timeout."""
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
        self, task: Task[Any, Any], entries: Iterable[GatheredJob], state: QueueState, worker: str
    ) -> SharedCall:
        """Create the call of some items without starting it."""
        call = SharedCall(task, state)
        on_stop = partial(self._on_item_stop, call)
        for job, value in entries:
            job.worker = worker
            call.add(ItemAttempt(job, value, call, on_stop))
        return call

    async def run_single(self, call: SharedCall, value: Any) -> None:
        """Run the prepared call of one item, whose value is known only now."""
        call.attempts[0].value = value
        await self._run(call)

    def _begin_timeouts(self, call: SharedCall) -> None:
        for attempt in call.attempts:
            if attempt.job.timeout is not None and not attempt.is_settled:
                attempt.start_timeout(self._loop, attempt.job.timeout)

    def _on_item_stop(self, call: SharedCall, attempt: ItemAttempt) -> None:
        """Settle an item that is told to stop. If no item is left, end the call."""
        if not attempt.is_settled:
            self._outcomes.handle_stop(attempt, asyncio.CancelledError())
        if call.is_over and call.future is not None and not call.future.done():
            call.future.cancel()

    async def _run(self, call: SharedCall) -> None:
        parts: list[Sequence[ItemAttempt]] = [call.attempts]
        while parts:
            part = [attempt for attempt in parts.pop() if attempt.is_pending]
            if not part:
                continue
            try:
                values = await self._call_handler(call, part)
            except BaseException as error:
                if not call.is_over:
                    parts.extend(reversed(await self._split_or_fail(call, part, error)))
            else:
                await self._handle_values(part, values)

    # The handler

    async def _call_handler(self, call: SharedCall, part: list[ItemAttempt]) -> object:
        """Call the handler with some items, and return its values."""
        arguments: tuple[Any, ...] = (
            [Item(attempt.value, self._context(attempt)) for attempt in part],
        )
        if call.task.takes_context:
            context = CallContext(call, len(part), self._resources, self._budgets, self._bridge)
            arguments = (context, *arguments)
        if call.task.is_async:
            return await call.task.fn(*arguments)
        return await self._in_thread(call, arguments)

    async def _in_thread(self, call: SharedCall, arguments: tuple[Any, ...]) -> object:
        thread = self._threads.submit(call_in_thread, call.task.fn, *arguments)
        returned = asyncio.wrap_future(thread, loop=self._loop)
        try:
            return await asyncio.shield(returned)
        except asyncio.CancelledError:
            if call.is_over and not thread.cancel() and not thread.done():
                # A thread cannot be stopped: it keeps its slot until it returns.
                for attempt in call.attempts:
                    attempt.overdue = True
                logger.warning(
                    "All items of a call of %s were stopped (%s). Its thread keeps its slot "
                    "until the handler returns.",
                    call.task.name,
                    call.stop_reason,
                )
                await asyncio.wait([returned])
                if not returned.cancelled():
                    returned.exception()
            raise

    # Outcomes

    async def _handle_values(self, part: list[ItemAttempt], values: object) -> None:
        try:
            outcomes = _check_values(part, values)
        except Exception as problem:
            await self._fail_items(part, problem)
            return
        failed: list[tuple[ItemAttempt, BaseException]] = []
        for attempt, value in zip(part, outcomes, strict=True):
            if isinstance(value, BaseException):
                failed.append((attempt, value))
            elif attempt.is_pending:
                self._outcomes.handle_return(attempt, value)
        for attempt, error in failed:
            await self._fail_items([attempt], error)

    async def _split_or_fail(
        self, call: SharedCall, part: list[ItemAttempt], error: BaseException
    ) -> list[list[ItemAttempt]]:
        """Return the parts of a failed call for which to call the handler again.

        Fail the other items.
        """
        if len(part) == 1 or fails_all_items(error, call.task):
            await self._fail_items(part, error)
            return []
        if isinstance(error, StaleAttempt):
            refused = [attempt for attempt in part if attempt.stop_reason is not None]
            await self._fail_items(refused, error)
            if refused:
                return [[attempt for attempt in part if attempt.is_pending]]
        part = await self._drop_completed(part, error)
        middle = (len(part) + 1) // 2
        return [part[:middle], part[middle:]]

    async def _drop_completed(
        self, part: list[ItemAttempt], error: BaseException
    ) -> list[ItemAttempt]:
        """Return the items that ctx.complete has not completed.

        An item counts as completed only if the transaction of its ctx.complete has committed.
        """
        completed_items = [attempt for attempt in part if attempt.completed]
        if not completed_items:
            return part
        try:
            done = await self._journal.completed(completed_items)
        except Exception as doubt:
            # Their settle asks the same question, and repeats it while the database is away.
            logger.warning(
                "It is not known which items a call of %s has completed: %r", part[0].task, doubt
            )
            done = {attempt.job.id for attempt in completed_items}
        for attempt in completed_items:
            if attempt.job.id in done:
                self._outcomes.handle_error(attempt, error)
            else:
                attempt.completed = False
        return [attempt for attempt in part if attempt.is_pending]

    async def _fail_items(self, part: Sequence[ItemAttempt], error: BaseException) -> None:
        """Fail all these items with the error.

        If the error asks for a wait, let them wait instead.
        """
        lanes: dict[str, list[ItemAttempt]] = {}
        for attempt in part:
            lanes.setdefault(attempt.job.row["lane"], []).append(attempt)
        for attempts in lanes.values():
            handled_error = await self._outcomes.handle_refusal(attempts[0], error, len(attempts))
            for attempt in attempts:
                if attempt.is_pending:
                    self._outcomes.handle_error(attempt, handled_error)


def fails_all_items(error: BaseException, task: Task[Any, Any]) -> bool:
    """Return whether an error concerns all items: an empty budget, a refusing server, an outage.

    A sleep or a wait for an event belongs to one item. Splitting the call finds that item, as it
    finds an item that fails.
    """
    assert task.settings.batch is not None
    if isinstance(suspension(error), NotNow) or retry_after(error) is not None:
        return True
    outages = tuple(task.settings.batch.fails_all)
    if isinstance(error, BaseExceptionGroup):
        return error.split(outages)[1] is None
    return isinstance(error, outages)


def _check_values(part: list[ItemAttempt], values: Any) -> list[Any]:
    """Return the handler's values, one for each item. Raise if they are no list of that length."""
    task = part[0].task
    if isinstance(values, Awaitable):
        remedy = "`await` it, in an `async def`"
        raise TypeError(describe_unawaited(f"The handler of {task.name}", values, remedy))
    wanted = f"it must return a list with one outcome for each of its {len(part)} items, in order"
    if not _is_list(values):
        raise TypeError(f"The handler of {task.name} returned a {type(values).__name__}: {wanted}.")
    outcomes = list(values)
    if len(outcomes) != len(part):
        raise ValueError(f"The handler of {task.name} returned {len(outcomes)} outcomes: {wanted}.")
    return outcomes


def _is_list(values: object) -> bool:
    """Return whether a value holds outcomes in order: a list, a tuple, an array.

    A dict or a data frame does not count, because iterating over it may yield its keys.
    """
    if isinstance(values, list | tuple):
        return True
    if isinstance(values, str | bytes | bytearray | memoryview) or hasattr(values, "keys"):
        return False
    return isinstance(values, Sized) and hasattr(values, "__getitem__")
