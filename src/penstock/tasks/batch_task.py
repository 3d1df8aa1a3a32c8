"""Tasks whose handlers take many jobs in one call."""

from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar

from penstock.outcome import Cancel, Discard, Done, Retry, Snooze
from penstock.tasks.batch_context import BatchContext
from penstock.tasks.item import Item
from penstock.tasks.task import Task

V = TypeVar("V")
R = TypeVar("R")

# What a handler may say of one item, beside its result: an exception is that item's failure.
Said = Done | Retry | Snooze | Cancel | Discard | Exception


class AsyncBatchTask(Task[[V], R], Generic[V, R]):
    is_async = True
    takes_context = False

    def __call__(self, items: Sequence[Item[V]], /) -> Coroutine[Any, Any, Sequence[R | Said]]:
        coroutine: Coroutine[Any, Any, Sequence[R | Said]] = self.fn(items)
        return coroutine


class AsyncContextBatchTask(Task[[V], R], Generic[V, R]):
    is_async = True
    takes_context = True

    def __call__(
        self, ctx: BatchContext, items: Sequence[Item[V]], /
    ) -> Coroutine[Any, Any, Sequence[R | Said]]:
        coroutine: Coroutine[Any, Any, Sequence[R | Said]] = self.fn(ctx, items)
        return coroutine


class SyncBatchTask(Task[[V], R], Generic[V, R]):
    is_async = False
    takes_context = False

    def __call__(self, items: Sequence[Item[V]], /) -> Sequence[R | Said]:
        said: Sequence[R | Said] = self.fn(items)
        return said


class SyncContextBatchTask(Task[[V], R], Generic[V, R]):
    is_async = False
    takes_context = True

    def __call__(self, ctx: BatchContext, items: Sequence[Item[V]], /) -> Sequence[R | Said]:
        said: Sequence[R | Said] = self.fn(ctx, items)
        return said


BATCH_KINDS: dict[tuple[bool, bool], type[Task[..., Any]]] = {
    (kind.is_async, kind.takes_context): kind
    for kind in (AsyncBatchTask, AsyncContextBatchTask, SyncBatchTask, SyncContextBatchTask)
}
