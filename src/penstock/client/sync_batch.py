"""A batch for code that does not await."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from penstock.client.batch import BatchHandle

P = ParamSpec("P")
T = TypeVar("T")


class Run(Protocol):
    """What brings a coroutine to its end."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T: ...


def _blocking(
    method: Callable[Concatenate[BatchHandle, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncBatchHandle, P], T]:
    """A batch's method as one that blocks, with the same parameters and the same result."""

    @wraps(method)
    def call(self: SyncBatchHandle, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._batch, *args, **kwargs))

    return call


class SyncBatchHandle:
    """A batch to add jobs to, until it is closed; see BatchHandle.

    with app.sync.batch("import") as batch:
        batch.enqueue(index, 1)
    """

    def __init__(self, batch: BatchHandle, run: Run) -> None:
        self._batch = batch
        self._run = run

    @property
    def id(self) -> str:
        return self._batch.id

    @property
    def tenant(self) -> str:
        return self._batch.tenant

    enqueue = _blocking(BatchHandle.enqueue)
    enqueue_many = _blocking(BatchHandle.enqueue_many)
    close = _blocking(BatchHandle.close)
    status = _blocking(BatchHandle.status)
    wait = _blocking(BatchHandle.wait)
    cancel = _blocking(BatchHandle.cancel)
    retry = _blocking(BatchHandle.retry)

    def __repr__(self) -> str:
        return repr(self._batch)
