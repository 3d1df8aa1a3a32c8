"""Typed things that handlers need and the worker opens once: a pool, a client, a model."""

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
from penstock.lifecycle import Health, Service
from penstock.worker.timing import DEFAULT_TIMING, Timing

logger = logging.getLogger("penstock.resources")

R = TypeVar("R")
Opener = (
    Callable[[], AbstractAsyncContextManager[Any]]
    | Callable[[Database], AbstractAsyncContextManager[Any]]
)

ERROR_SHOWN = 500
NOT_YET = "it is still being opened"


class Offers:
    """Open resources, as handlers and those who start them ask for them."""

    def __init__(self) -> None:
        self._open: dict[type[Any], Any] = {}

    def get(self, kind: type[R]) -> R:
        try:
            found: R = self._open[kind]
        except KeyError:
            raise ResourceMissing(kind.__name__) from None
        return found

    def missing(self, kinds: Iterable[type[Any]]) -> list[str]:
        """The names of those that are not open."""
        return [kind.__name__ for kind in kinds if kind not in self._open]


class Resources:
    """How to open each kind; shared by all workers of an app."""

    def __init__(self) -> None:
        self._openers: dict[type[Any], Opener] = {}

    def add(self, kind: type[Any], opener: Opener) -> None:
        """Say what opens a kind: a function that gives an async context manager."""
        if kind in self._openers:
            raise Misuse(f"The resource {kind.__name__} has two openers: keep one.", "resource")
        self._openers[kind] = opener

    def decorator(self, kind: type[Any] | Opener | None) -> Any:
        """Serve `@app.resource` and `@app.resource(HttpClient)`."""
        if isinstance(kind, type):
            return partial(self._added, kind)
        if kind is None:
            return self.decorator
        self.add(_kind_opened_by(kind), kind)
        return kind

    def _added(self, kind: type[Any], opener: Opener) -> Opener:
        self.add(kind, opener)
        return opener

    def __iter__(self) -> Iterator[tuple[type[Any], Opener]]:
        return iter(self._openers.items())


class Opened(Offers, Service):
    """The resources that one worker has open. One that fails to open is tried again and again;
    meanwhile the tasks that need it wait, visibly, and the rest runs."""

    name = "resources"

    def __init__(
        self,
        resources: Resources,
        health: Health,
        database: Database,
        elsewhere: Collection[type[Any]] = (),
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        Offers.__init__(self)
        Service.__init__(self, health)
        self._database = database
        self._retry = timing.resources_retry
        self._stack = AsyncExitStack()
        self._closed: dict[type[Any], Opener] = {
            kind: opener for kind, opener in resources if kind not in elsewhere
        }
        self._said: set[type[Any]] = set()
        # Replaced, never changed: the heartbeat reads it from another thread.
        self.troubles: dict[str, str] = {kind.__name__: NOT_YET for kind in self._closed}
        self._tried = asyncio.Event()

    async def tried(self, timeout: float) -> None:
        """Wait until each was tried once, but not for one that takes for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._tried.wait()

    async def tick(self) -> float:
        for kind, opener in list(self._closed.items()):
            try:
                self._open[kind] = await self._stack.enter_async_context(
                    opening(opener, self._database)
                )
            except Exception as error:
                self._say(kind, error)
                self.troubles = {**self.troubles, kind.__name__: _told(error)}
                continue
            del self._closed[kind]
            self.troubles = {
                name: why for name, why in self.troubles.items() if name != kind.__name__
            }
        self._tried.set()
        return self._retry if self._closed else float("inf")

    def _say(self, kind: type[Any], error: Exception) -> None:
        if kind not in self._said:
            self._said.add(kind)
            logger.error(
                "The resource %s could not be opened, its tasks wait: %r", kind.__name__, error
            )

    async def _rest(self, delay: float) -> None:
        if delay == float("inf"):
            await asyncio.Event().wait()
        await super()._rest(delay)

    async def close(self) -> None:
        """Close all, the last opened first."""
        await self.stop()
        self._open.clear()
        await self._stack.aclose()


def opening(opener: Opener, database: Database) -> AbstractAsyncContextManager[Any]:
    """What opens a resource; one that takes an argument is told where the worker works."""
    made: Any = opener
    takes_it = any(
        each.default is each.empty and each.kind is not each.VAR_POSITIONAL
        for each in inspect.signature(made).parameters.values()
    )
    opened: AbstractAsyncContextManager[Any] = made(database) if takes_it else made()
    return opened


def _told(error: Exception) -> str:
    return storable(f"{type(error).__name__}: {error}", ERROR_SHOWN)


def _kind_opened_by(opener: Any) -> type[Any]:
    """The type that an opener yields, from its annotation."""
    hinted = get_type_hints(opener).get("return") if callable(opener) else None
    kinds = get_args(hinted)
    if kinds and isinstance(kinds[0], type):
        return kinds[0]
    name = getattr(opener, "__name__", opener)
    raise Misuse(
        f"What {name} opens is not known: annotate what it yields, such as "
        "AsyncIterator[HttpClient], or name it with @app.resource(HttpClient).",
        "resource",
    )
