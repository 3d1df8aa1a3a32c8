"""The steps of an attempt. Steps that are done are not run again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from penstock.errors import BadArgument, DuplicateStep, TooManySteps
from penstock.outcome import Snooze
from penstock.store.steps import Saved
from penstock.tasks.handler.cache import Cache
from penstock.tasks.handler.steps import MAX_STEPS, MAX_STEPS_CHARS, StepResult, step_name
from penstock.tasks.handler.waits import Suspended
from penstock.worker.attempt import Attempt
from penstock.worker.run.journal import Journal
from penstock.worker.run.threads import Bridge

StepKey = tuple[str, str]


class SavedSteps:
    """The steps that a job's attempts have saved.

    They are read on first use, and this attempt adds its own.
    """

    def __init__(self, attempt: Attempt, journal: Journal) -> None:
        self.attempt = attempt
        self.journal = journal
        self._saved: dict[StepKey, str] | None = None
        self._used: set[StepKey] = set()
        self._counts: Counter[str] = Counter()
        self._size = 0
        self._reading = asyncio.Lock()

    def next_number(self, kind: str) -> int:
        """Return the number of this call among the calls of its kind in this attempt."""
        self._counts[kind] += 1
        return self._counts[kind]

    async def find(self, kind: str, name: str) -> str | None:
        """Return a step's result, or None if the step is not done.

        An attempt may ask for each step only once.
        """
        if self.attempt.stop_reason is not None:
            # A thread cannot be stopped, so a stopped attempt ends here, before it begins anything.
            raise Suspended(Snooze(0.0), "The attempt is stopped.")
        if (kind, name) in self._used:
            raise DuplicateStep(name, kind)
        self._used.add((kind, name))
        async with self._reading:
            if self._saved is None:
                saved = await self.journal.read(self.attempt)
                self._saved = {(step.kind, step.name): step.result or "null" for step in saved}
                self._size = sum(map(len, self._saved.values()))
        return self._saved.get((kind, name))

    async def save(self, kind: str, name: str, result: str) -> float:
        """Save a result; return how many seconds ago the step was first saved."""
        self.remember(kind, name, result)
        return await self.journal.save(self.attempt, Saved(kind, name, result))

    async def share(self, name: str, result: str, key: bytes, ttl: float) -> None:
        """Save a step's result for other jobs as well."""
        self.remember("step", name, result)
        await self.journal.share(self.attempt, Saved("step", name, result), key, ttl)

    def get_known(self, kind: str, name: str) -> str | None:
        """Return a step's result from memory, or None if this attempt does not know it."""
        return (self._saved or {}).get((kind, name))

    def remember(self, kind: str, name: str, result: str) -> None:
        """Remember a saved result.

        Raise TooManySteps if the job now has more steps, or larger ones, than an attempt can read.
        """
        assert self._saved is not None
        self._size += len(result) - len(self._saved.get((kind, name), ""))
        self._saved[kind, name] = result
        if len(self._saved) > MAX_STEPS or self._size > MAX_STEPS_CHARS:
            raise TooManySteps(len(self._saved), self._size, MAX_STEPS, MAX_STEPS_CHARS)


class _StepCall(NamedTuple):
    """A step before its run, or after it with its result."""

    name: str
    recorded: StepResult
    done: str | None
    key: bytes | None


class StepRunner:
    """Runs `ctx.step`, for async and sync handlers."""

    def __init__(self, saved_steps: SavedSteps, cache: Cache | None) -> None:
        if not isinstance(cache, Cache | None):
            raise BadArgument("cache", cache, "a Cache, such as Cache(ttl=3600)")
        self._saved_steps = saved_steps
        self._cache = cache

    async def run(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        call = await self._begin(name, fn, args, kwargs)
        if call.done is None:
            value = fn(*args, **kwargs)
            if isinstance(value, Awaitable):
                value = await value
            call = await self._end(call, value)
        return _decode_result(call)

    def run_blocking(
        self,
        bridge: Bridge,
        name: str,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        call = bridge.run(self._begin(name, fn, args, kwargs))
        if call.done is None:
            value = fn(*args, **kwargs)
            if isinstance(value, Awaitable):
                raise unawaited_result(name, value)
            call = bridge.run(self._end(call, value))
        return _decode_result(call)

    async def _begin(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _StepCall:
        name = step_name(name)
        if not callable(fn):
            raise not_a_function(name, fn)
        done, key = await self._saved_steps.find("step", name), None
        if done is None and self._cache is not None:
            key = self._cache.key(name, fn, args, kwargs)
            done = await self._saved_steps.journal.recall(self._saved_steps.attempt, name, key)
        return _StepCall(name, StepResult(name, fn), done, key)

    async def _end(self, call: _StepCall, value: Any) -> _StepCall:
        encoded = call.recorded.encode(value)
        call.recorded.decode(encoded)  # A result that cannot be read again must not be saved.
        if self._cache is None or call.key is None:
            await self._saved_steps.save("step", call.name, encoded)
        else:
            await self._saved_steps.share(call.name, encoded, call.key, self._cache.seconds)
        return call._replace(done=encoded)


def _decode_result(call: _StepCall) -> Any:
    assert call.done is not None
    return call.recorded.decode(call.done)


def not_a_function(name: str, value: Any) -> TypeError:
    """Return the error for a step that was given something other than a function."""
    if isinstance(value, Coroutine):
        value.close()
    return TypeError(
        f"The step {name!r} was given a {type(value).__name__} instead of a function. Pass the "
        f"function and its arguments, not its call: ctx.step({name!r}, charge, order), not "
        f"ctx.step({name!r}, charge(order))."
    )


def unawaited_result(name: str, value: Awaitable[Any]) -> TypeError:
    """Return the error for a sync handler whose function returned an awaitable."""
    if isinstance(value, Coroutine):
        value.close()  # Otherwise Python warns when the garbage collector finds it.
    return TypeError(
        f"The function of the step {name!r} returned a {type(value).__name__}, which a sync handler"
        " cannot await: make the handler `async def` and `await ctx.step(…)`."
    )
