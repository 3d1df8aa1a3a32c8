"""The steps of one attempt: those that are done are not run again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from penstock.errors import BadArgument, DuplicateStep, TooManySteps
from penstock.outcome import Snooze
from penstock.store.steps import Saved
from penstock.tasks.handler.cache import Cache
from penstock.tasks.handler.steps import MOST_STEPS, STEPS_LIMIT, Recorded, step_name
from penstock.tasks.handler.waits import Suspended
from penstock.worker.attempt import Attempt
from penstock.worker.run.journal import Journal
from penstock.worker.run.threads import Bridge

Key = tuple[str, str]


class Memory:
    """What the job's attempts have kept, read when the first one asks, and added to by this one."""

    def __init__(self, attempt: Attempt, journal: Journal) -> None:
        self.attempt = attempt
        self.journal = journal
        self._saved: dict[Key, str] | None = None
        self._used: set[Key] = set()
        self._counts: Counter[str] = Counter()
        self._size = 0
        self._reading = asyncio.Lock()

    def count(self, what: str) -> int:
        """The number of this call among those of its kind in this attempt."""
        self._counts[what] += 1
        return self._counts[what]

    async def find(self, kind: str, name: str) -> str | None:
        """The result of a step, if it is done. Each step is asked for once in an attempt."""
        if self.attempt.stopped is not None:
            # A thread cannot be stopped; here, before it begins anything, is the place to end it.
            raise Suspended(Snooze(0.0), "The attempt is stopped.")
        if (kind, name) in self._used:
            raise DuplicateStep(name, kind)
        self._used.add((kind, name))
        async with self._reading:
            if self._saved is None:
                saved = await self.journal.read(self.attempt)
                self._saved = {(one.kind, one.name): one.result or "null" for one in saved}
                self._size = sum(map(len, self._saved.values()))
        return self._saved.get((kind, name))

    async def keep(self, kind: str, name: str, result: str) -> float:
        """Keep a result; how many seconds ago the step was first kept."""
        self.note(kind, name, result)
        return await self.journal.save(self.attempt, Saved(kind, name, result))

    async def share(self, name: str, result: str, key: bytes, ttl: float) -> None:
        """Keep a step's result for other jobs as well."""
        self.note("step", name, result)
        await self.journal.share(self.attempt, Saved("step", name, result), key, ttl)

    def known(self, kind: str, name: str) -> str | None:
        """The result of a step that this attempt has asked for before."""
        return (self._saved or {}).get((kind, name))

    def note(self, kind: str, name: str, result: str) -> None:
        """Remember what is kept; raises TooManySteps if it is more than can be read."""
        assert self._saved is not None
        self._size += len(result) - len(self._saved.get((kind, name), ""))
        self._saved[kind, name] = result
        if len(self._saved) > MOST_STEPS or self._size > STEPS_LIMIT:
            raise TooManySteps(len(self._saved), self._size, MOST_STEPS, STEPS_LIMIT)


class _Begun(NamedTuple):
    """A step that is to be run, or has been: then with its result."""

    name: str
    recorded: Recorded
    done: str | None
    key: bytes | None


class StepRunner:
    """`ctx.step`, for handlers that await and for those that do not."""

    def __init__(self, memory: Memory, cache: Cache | None) -> None:
        if not isinstance(cache, Cache | None):
            raise BadArgument("cache", cache, "a Cache, such as Cache(ttl=3600)")
        self._memory = memory
        self._cache = cache

    async def run(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        begun = await self._begin(name, fn, args, kwargs)
        if begun.done is None:
            value = fn(*args, **kwargs)
            if isinstance(value, Awaitable):
                value = await value
            begun = await self._end(begun, value)
        return _result(begun)

    def run_blocking(
        self,
        bridge: Bridge,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        begun = bridge.run(self._begin(name, fn, args, kwargs))
        if begun.done is None:
            value = fn(*args, **kwargs)
            if isinstance(value, Awaitable):
                raise unawaited(name, value)
            begun = bridge.run(self._end(begun, value))
        return _result(begun)

    async def _begin(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Begun:
        name = step_name(name)
        if not callable(fn):
            raise called(name, fn)
        done, key = await self._memory.find("step", name), None
        if done is None and self._cache is not None:
            key = self._cache.key(name, fn, args, kwargs)
            done = await self._memory.journal.recall(self._memory.attempt, name, key)
        return _Begun(name, Recorded(name, fn), done, key)

    async def _end(self, begun: _Begun, value: Any) -> _Begun:
        encoded = begun.recorded.encode(value)
        begun.recorded.decode(encoded)  # What cannot be read again must not be kept.
        if self._cache is None or begun.key is None:
            await self._memory.keep("step", begun.name, encoded)
        else:
            await self._memory.share(begun.name, encoded, begun.key, self._cache.seconds)
        return begun._replace(done=encoded)


def _result(begun: _Begun) -> Any:
    assert begun.done is not None
    return begun.recorded.decode(begun.done)


def called(name: str, value: Any) -> TypeError:
    """What it means that something else was given than a function."""
    if isinstance(value, Coroutine):
        value.close()
    return TypeError(
        f"The step {name!r} was given a {type(value).__name__} instead of a function. Pass the "
        f"function and its arguments, not its call: ctx.step({name!r}, charge, order), not "
        f"ctx.step({name!r}, charge(order))."
    )


def unawaited(name: str, value: Awaitable[Any]) -> TypeError:
    """What it means that a sync handler's function returned work instead of doing it."""
    if isinstance(value, Coroutine):
        value.close()  # Or Python warns of it, wherever the garbage collector finds it.
    return TypeError(
        f"The function of the step {name!r} returned a {type(value).__name__}, which a sync handler"
        " cannot await: make the handler `async def` and `await ctx.step(…)`."
    )
