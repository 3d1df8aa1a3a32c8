"""A batch for code that does not await."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from penstock.client.batch import Batch

P = ParamSpec("P")
T = TypeVar("T")


class Run(Protocol):
    """What brings a coroutine to its end."""

    def __call__(self, coroutine: Coroutine[Any, Any, T], /) -> T: ...


def _blocking(
    method: Callable[Concatenate[Batch, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncBatch, P], T]:
    """A batch's method as one that blocks, with the same parameters and the same result."""

    @wraps(method)
    def call(self: SyncBatch, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._batch, *args, **kwargs))

    return call


class SyncBatch:
    """A batch to add jobs to, until it is closed; see Batch.

    with app.sync.batch("import") as batch:
        batch.enqueue(index, 1)
    """

    def __init__(self, batch: Batch, run: Run) -> None:
        self._batch = batch
        self._run = run

    @property
    def id(self) -> str:
        return self._batch.id

    @property
    def tenant(self) -> str:
        return self._batch.tenant

    enqueue = _blocking(Batch.enqueue)
    enqueue_many = _blocking(Batch.enqueue_many)
    close = _blocking(Batch.close)
    status = _blocking(Batch.status)
    wait = _blocking(Batch.wait)
    cancel = _blocking(Batch.cancel)
    retry = _blocking(Batch.retry)

    def __repr__(self) -> str:
        return repr(self._batch)
