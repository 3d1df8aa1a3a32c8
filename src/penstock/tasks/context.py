"""What a handler may ask for beside its arguments."""

from abc import ABC, abstractmethod
from logging import Logger, LoggerAdapter
from typing import Any, TypeVar

from penstock.job import Job

R = TypeVar("R")


class SyncContext(ABC):
    """What a sync handler does inside its own transaction."""

    @abstractmethod
    def fence(self, conn: Any) -> None:
        """Raise StaleAttempt unless this attempt still owns its job, inside your transaction."""

    @abstractmethod
    def complete(self, conn: Any, result: Any = None) -> None:
        """Complete the job inside your transaction: it is done exactly if your work commits."""


class Context(ABC):
    """The attempt that a handler runs in. A handler that wants it names it first:

        @app.task
        async def index(ctx: Context, document: int) -> None:
            ctx.progress(0, 10, "reading")

    Callers leave it out: `app.enqueue(index, 42)`. The same calls serve async and sync handlers,
    apart from `fence` and `complete`, which use the handler's own connection: with a blocking one
    they are `ctx.sync.fence` and `ctx.sync.complete`.
    """

    @property
    @abstractmethod
    def job(self) -> Job:
        """The job as it was claimed."""

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1 on; it only ever rises."""
        return self.job.attempt

    @property
    @abstractmethod
    def logger(self) -> Logger | LoggerAdapter[Any]:
        """A logger whose lines carry the job's id, task and attempt."""

    @property
    @abstractmethod
    def cancelled(self) -> bool:
        """Whether to stop: a sync handler looks here, an async one gets a CancelledError."""

    @abstractmethod
    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the work is. Never waits: the newest state is written within a moment."""

    @abstractmethod
    async def fence(self, conn: Any) -> None:
        """Raise StaleAttempt unless this attempt still owns its job, inside your transaction."""

    @abstractmethod
    async def complete(self, conn: Any, result: Any = None) -> None:
        """Complete the job inside your transaction: it is done exactly if your work commits."""

    @property
    @abstractmethod
    def sync(self) -> SyncContext:
        """`fence` and `complete` for a blocking connection."""

    @abstractmethod
    def resource(self, kind: type[R]) -> R:
        """Return what the worker opened for this type; the task must name it in `resources`."""
