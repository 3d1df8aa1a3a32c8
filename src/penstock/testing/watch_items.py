"""The watch over handlers that take many jobs: each item is a call of its own to it.

A fault befalls one item. The handler does its work for the others, as it does in production where
one is cancelled or lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.tasks import Item, Task
from penstock.worker.calls import is_of_all
from penstock.worker.context import AttemptContext

if TYPE_CHECKING:
    from penstock.testing.watch import Call, Watch

AnyTask = Task[..., Any]


class Shared:
    """One call of a handler under watch, with the items that no fault has struck."""

    def __init__(self, watch: Watch, task: AnyTask, ctx: Any, items: list[Item[Any]]) -> None:
        self._watch = watch
        self._task = task
        self._ctx = ctx
        self._items = items
        self.calls = [_call(watch, task, item) for item in items]
        self._struck: dict[int, BaseException] = {}

    @property
    def left(self) -> list[int]:
        return [number for number in range(len(self._items)) if number not in self._struck]

    def strike(self, number: int, error: BaseException) -> None:
        """A fault's error is the outcome of its item."""
        self._struck[number] = error

    def outcome(self, number: int, value: Any) -> Any:
        return self._struck.get(number, value)

    @property
    def given(self) -> tuple[Any, ...]:
        """What the handler gets."""
        items = [self._items[number] for number in self.left]
        return (self._ctx, items) if self._task.takes_context else (items,)

    def raised(self, error: BaseException) -> bool:
        """Whether to tell of an error: not of one for which the guilty item is still looked for."""
        calls = [self.calls[number] for number in self.left]
        if not calls or not (len(calls) == 1 or is_of_all(error, self._task)):
            return False
        return self._tell(calls[0], error)

    def _tell(self, call: Call, error: BaseException) -> bool:
        is_failure = self._watch.is_failure(call, error)
        if is_failure:
            self._watch.note(call, error)
        return is_failure

    def returned(self, values: Any) -> tuple[Any, bool]:
        """What the handler said, with the faults among it, and whether there is a failure in it."""
        if not isinstance(values, list | tuple) or len(values) != len(self.left):
            return values, False
        said, failed = dict(zip(self.left, values, strict=True)), False
        for number, value in said.items():
            if isinstance(value, BaseException):
                failed = self._tell(self.calls[number], value) or failed
            else:
                self._watch.returned.append((self.calls[number], value))
        said |= self._struck
        return [said[number] for number in range(len(self._items))], failed


def around_async(watch: Watch, task: AnyTask) -> Callable[..., Any]:
    async def befall(shared: Shared, point: Any) -> None:
        for number in shared.left:
            try:
                await watch.befall(shared.calls[number], point)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                shared.strike(number, error)

    async def handler(ctx: Any, items: list[Item[Any]]) -> Any:
        shared = Shared(watch, task, ctx, items)
        await befall(shared, "start")
        try:
            values = await task.fn(*shared.given) if shared.left else []
        except BaseException as error:
            if shared.raised(error):
                watch.on_raise()
            raise
        said, failed = shared.returned(values)
        await befall(shared, "end")
        if failed:
            watch.on_raise()
        return _struck(shared, said)

    return handler


def around_sync(watch: Watch, task: AnyTask) -> Callable[..., Any]:
    def befall(shared: Shared, point: Any) -> None:
        for number in shared.left:
            try:
                watch.befall_from_thread(shared.calls[number], point)
            except BaseException as error:
                shared.strike(number, error)

    def handler(ctx: Any, items: list[Item[Any]]) -> Any:
        shared = Shared(watch, task, ctx, items)
        befall(shared, "start")
        try:
            values = task.fn(*shared.given) if shared.left else []
        except BaseException as error:
            if shared.raised(error):
                watch.on_raise_from_thread()
            raise
        said, failed = shared.returned(values)
        befall(shared, "end")
        if failed:
            watch.on_raise_from_thread()
        return _struck(shared, said)

    return handler


def _struck(shared: Shared, said: Any) -> Any:
    """The outcomes, with those of faults that struck after the handler had done its work."""
    if not isinstance(said, list):
        return said
    return [shared.outcome(number, value) for number, value in enumerate(said)]


def _call(watch: Watch, task: AnyTask, item: Item[Any]) -> Call:
    """The item's attempt: counted once, also if the handler is called again to find who failed."""
    ctx = item.ctx
    assert isinstance(ctx, AttemptContext)
    known = watch.places.get((ctx.job.id, ctx.job.attempt))
    return watch.begin(task, ctx) if known is None else known
