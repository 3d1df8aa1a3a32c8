"""Typed resources that handlers need and the worker opens once: a pool, a client, a model."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import Any, TypeVar, get_args, get_type_hints

from penstock.config import Database
from penstock.errors import Misuse, ResourceMissing
from penstock.job import storable
from penstock.lifecycle import DatabaseHealth, Service
from penstock.worker.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger("penstock.resources")

R = TypeVar("R")
Opener = (
    Callable[[], AbstractAsyncContextManager[Any]]
    | Callable[[Database], AbstractAsyncContextManager[Any]]
)

MAX_ERROR_CHARS = 500
NOT_YET = "it is still being opened"


class OpenResources:
    """The open resources, by type."""

    def __init__(self) -> None:
        self._open: dict[type[Any], Any] = {}

    def get(self, kind: type[R]) -> R:
        try:
            resource: R = self._open[kind]
        except KeyError:
            raise ResourceMissing(kind.__name__) from None
        return resource

    def missing(self, kinds: Iterable[type[Any]]) -> list[str]:
        """Return the names of the given types that are not open."""
        return [kind.__name__ for kind in kinds if kind not in self._open]


class Resources:
    """The openers of resources, by type. All workers of an app share them."""

    def __init__(self) -> None:
        self._openers: dict[type[Any], Opener] = {}

    def add(self, kind: type[Any], opener: Opener) -> None:
        """Register the opener of a type: a function that returns an async context manager."""
        if kind in self._openers:
            raise Misuse(f"The resource {kind.__name__} has two openers: keep one.", "resource")
        self._openers[kind] = opener

    def decorator(self, kind: type[Any] | Opener | None) -> Any:
        """Implement `@app.resource` and `@app.resource(HttpClient)`."""
        if isinstance(kind, type):
            return partial(self._add_and_return, kind)
        if kind is None:
            return self.decorator
        self.add(_yielded_type(kind), kind)
        return kind

    def _add_and_return(self, kind: type[Any], opener: Opener) -> Opener:
        self.add(kind, opener)
        return opener

    def __iter__(self) -> Iterator[tuple[type[Any], Opener]]:
        return iter(self._openers.items())


class WorkerResources(OpenResources, Service):
    """The resources of one worker.

    A resource that fails to open is tried again and again. Meanwhile the tasks that need it wait,
    the lease shows the problem, and other tasks run.
    """

    name = "resources"

    def __init__(
        self,
        resources: Resources,
        health: DatabaseHealth,
        database: Database,
        excluded: Collection[type[Any]] = (),
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        OpenResources.__init__(self)
        Service.__init__(self, health)
        self._database = database
        self._retry = timing.resources_retry
        self._stack = AsyncExitStack()
        self._not_open: dict[type[Any], Opener] = {
            kind: opener for kind, opener in resources if kind not in excluded
        }
        self._logged: set[type[Any]] = set()
        # Replaced, never changed: the heartbeat reads it from another thread.
        self.problems: dict[str, str] = {kind.__name__: NOT_YET for kind in self._not_open}
        self._all_tried = asyncio.Event()

    async def wait_until_tried(self, timeout: float) -> None:
        """Wait until the worker has tried once to open each resource, or until the timeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._all_tried.wait()

    async def tick(self) -> float:
        for kind, opener in list(self._not_open.items()):
            try:
                self._open[kind] = await self._stack.enter_async_context(
                    call_opener(opener, self._database)
                )
            except Exception as error:
                self._log_once(kind, error)
                self.problems = {**self.problems, kind.__name__: _describe_error(error)}
                continue
            del self._not_open[kind]
            self.problems = {
                name: why for name, why in self.problems.items() if name != kind.__name__
            }
        self._all_tried.set()
        return self._retry if self._not_open else float("inf")

    def _log_once(self, kind: type[Any], error: Exception) -> None:
        if kind not in self._logged:
            self._logged.add(kind)
            logger.error(
                "The resource %s could not be opened, so the tasks that need it wait: %r",
                kind.__name__,
                error,
            )

    async def _rest(self, delay: float) -> None:
        if delay == float("inf"):
            await asyncio.Event().wait()
        await super()._rest(delay)

    async def close(self) -> None:
        """Close all resources, the last opened first."""
        await self.stop()
        self._open.clear()
        await self._stack.aclose()


def call_opener(opener: Opener, database: Database) -> AbstractAsyncContextManager[Any]:
    """Call an opener. If it takes an argument, pass the database."""
    make: Any = opener
    takes_database = any(
        parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        for parameter in inspect.signature(make).parameters.values()
    )
    manager: AbstractAsyncContextManager[Any] = make(database) if takes_database else make()
    return manager


def _describe_error(error: Exception) -> str:
    return storable(f"{type(error).__name__}: {error}", MAX_ERROR_CHARS)


def _yielded_type(opener: Any) -> type[Any]:
    """Return the type that an opener yields, from its annotation."""
    return_type = get_type_hints(opener).get("return") if callable(opener) else None
    kinds = get_args(return_type)
    if kinds and isinstance(kinds[0], type):
        return kinds[0]
    name = getattr(opener, "__name__", opener)
    raise Misuse(
        f"The type that {name} opens is not known: annotate what it yields, such as "
        "AsyncIterator[HttpClient], or name it with @app.resource(HttpClient).",
        "resource",
    )
