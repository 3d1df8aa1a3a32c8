"""The steps of one attempt: those that are done are not run again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from penstock.errors import DuplicateStep, TooManySteps
from penstock.outcome import Snooze
from penstock.store.steps import Saved
from penstock.tasks.steps import MOST_STEPS, STEPS_LIMIT, Recorded, step_name
from penstock.tasks.suspended import Suspended
from penstock.worker.bridge import Bridge
from penstock.worker.journal import Journal
from penstock.worker.run import Run

Key = tuple[str, str]


class Memory:
    """What the job's attempts have kept, read when the first one asks, and added to by this one."""

    def __init__(self, run: Run, journal: Journal) -> None:
        self.run = run
        self.journal = journal
        self._saved: dict[Key, str] | None = None
        self._used: set[Key] = set()
        self._size = 0
        self._reading = asyncio.Lock()

    async def find(self, kind: str, name: str) -> str | None:
        """The result of a step, if it is done. Each step is asked for once in an attempt."""
        if self.run.stopped is not None:
            # A thread cannot be stopped; here, before it begins anything, is the place to end it.
            raise Suspended(Snooze(0.0), "The attempt is stopped.")
        if (kind, name) in self._used:
            raise DuplicateStep(name, kind)
        self._used.add((kind, name))
        async with self._reading:
            if self._saved is None:
                saved = await self.journal.read(self.run)
                self._saved = {(one.kind, one.name): one.result or "null" for one in saved}
                self._size = sum(map(len, self._saved.values()))
        return self._saved.get((kind, name))

    async def keep(self, kind: str, name: str, result: str) -> float:
        """Keep a result; how many seconds ago the step was first kept."""
        self.note(kind, name, result)
        return await self.journal.save(self.run, Saved(kind, name, result))

    def note(self, kind: str, name: str, result: str) -> None:
        """Remember what is kept; raises TooManySteps."""
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


class StepRunner:
    """`ctx.step`, for handlers that await and for those that do not."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def run(
        self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        begun = await self._begin(name, fn)
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
        begun = bridge.run(self._begin(name, fn))
        if begun.done is None:
            value = fn(*args, **kwargs)
            if isinstance(value, Awaitable):
                raise _unawaited(name, value)
            begun = bridge.run(self._end(begun, value))
        return _result(begun)

    async def _begin(self, name: str, fn: Callable[..., Any]) -> _Begun:
        name = step_name(name)
        return _Begun(name, Recorded(name, fn), await self._memory.find("step", name))

    async def _end(self, begun: _Begun, value: Any) -> _Begun:
        encoded = begun.recorded.encode(value)
        begun.recorded.decode(encoded)  # What cannot be read again must not be kept.
        await self._memory.keep("step", begun.name, encoded)
        return begun._replace(done=encoded)


def _result(begun: _Begun) -> Any:
    assert begun.done is not None
    return begun.recorded.decode(begun.done)


def _unawaited(name: str, value: Awaitable[Any]) -> TypeError:
    if isinstance(value, Coroutine):
        value.close()  # Or Python warns of it, wherever the garbage collector finds it.
    return TypeError(
        f"The function of the step {name!r} returned a {type(value).__name__}, which a sync handler"
        " cannot await: make the handler `async def` and `await ctx.step(…)`."
    )
