"""What a handler that takes many jobs may ask for, for the call as a whole."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from logging import Logger, LoggerAdapter
from typing import Any, TypeVar

from penstock.tasks.budget import Budget

R = TypeVar("R")


class SyncBatchContext(ABC):
    """What a sync handler does where an async one would await."""

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractContextManager[Budget, None]:
        """Units of a budget that all workers share, for one block; see `Context.budget`."""

    @abstractmethod
    def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Let nobody start with a key, or take from its budget, for so many seconds."""


class BatchContext(ABC):
    """The call that a handler's items share. A handler that wants it names it first:

        @app.task(batch=Batch(size=64), resources=(Model,))
        async def embed(ctx: BatchContext, items: list[Item[str]]) -> list[list[float]]:
            return await ctx.resource(Model).embed([item.value for item in items])

    What belongs to one job is in that item's own context: `item.ctx`.
    """

    @property
    @abstractmethod
    def logger(self) -> Logger | LoggerAdapter[Any]:
        """A logger whose lines carry the task and how many items the call has."""

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """Whether to stop: no item of the call is wanted any more."""

    @abstractmethod
    def budget(
        self, key: str, *, units: float, wait: float | timedelta = 0.0
    ) -> AbstractAsyncContextManager[Budget, None]:
        """Units of a budget for the whole call; if there are not enough, all its items wait."""

    @abstractmethod
    async def close_bucket(self, key: str, wait: float | timedelta) -> None:
        """Let nobody start with a key, or take from its budget, for so many seconds."""

    @property
    @abstractmethod
    def sync(self) -> SyncBatchContext:
        """What waits, for a handler that does not await."""

    @abstractmethod
    def resource(self, kind: type[R]) -> R:
        """Return what the worker opened for this type; the task must name it in `resources`."""
