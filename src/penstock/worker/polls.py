"""`ctx.poll`: each attempt asks once and, without an answer, ends until the next time."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from msgspec import UNSET, Raw

from penstock.errors import PollTimeout, StaleAttempt
from penstock.outcome import Snooze
from penstock.tasks.handler.failure import retry_after
from penstock.tasks.handler.steps import Recorded, step_name
from penstock.tasks.handler.waits import Pending, Polling, Polls, Suspended, pending_of
from penstock.worker.bridge import Bridge
from penstock.worker.steps import Memory, unawaited

logger = logging.getLogger("penstock.worker")


class _Begun(NamedTuple):
    name: str
    recorded: Recorded
    polls: Polls


class Poller:
    """Asks by a function of the handler's, and remembers how often."""

    def __init__(self, memory: Memory, polling: Polling) -> None:
        self._memory = memory
        self._polling = polling
        self._rng = random.Random()

    async def run(
        self, name: str, check: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        begun = await self._begin(name, check)
        if begun.polls.answer is UNSET:
            try:
                value = check(*args, **kwargs)
                if isinstance(value, Awaitable):
                    value = await value
            except Exception as error:
                value = self._unanswered(begun, error)
            begun = await self._end(begun, value)
        return _answer(begun)

    def run_blocking(
        self,
        bridge: Bridge,
        name: str,
        check: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        begun = bridge.run(self._begin(name, check))
        if begun.polls.answer is UNSET:
            try:
                value = check(*args, **kwargs)
            except Exception as error:
                value = self._unanswered(begun, error)
            if isinstance(value, Awaitable):
                raise unawaited(name, value)
            begun = bridge.run(self._end(begun, value))
        return _answer(begun)

    async def _begin(self, name: str, check: Callable[..., Any]) -> _Begun:
        name = step_name(name)
        polls = Polls.read(await self._memory.find("poll", name))
        if polls.timed_out:
            raise PollTimeout(name, polls.polls)
        return _Begun(name, Recorded(name, check), polls)

    def _unanswered(self, begun: _Begun, error: Exception) -> Pending:
        """An error that another attempt may not have is a poll without an answer."""
        run = self._memory.run
        if isinstance(error, StaleAttempt) or not run.task.failed(error).retryable:
            raise error
        kind = type(error).__name__
        logger.warning("%r polled %r in vain: %s", run, begun.name, kind)
        return Pending(retry_after(error))

    async def _end(self, begun: _Begun, value: Any) -> _Begun:
        number = begun.polls.polls + 1
        if (pending := pending_of(value)) is not None:
            raise await self._next(begun.name, number, pending)
        encoded = begun.recorded.encode(value)
        begun.recorded.decode(encoded)
        polls = Polls(number, Raw(encoded.encode()))
        await self._memory.keep("poll", begun.name, polls.text)
        return begun._replace(polls=polls)

    async def _next(self, name: str, number: int, pending: Pending) -> BaseException:
        """What ends an attempt that got no answer."""
        polling = self._polling
        age = await self._memory.keep("poll", name, Polls(number).text)
        if polling.is_over(number, age):
            await self._memory.keep("poll", name, Polls(number, timed_out=True).text)
            return PollTimeout(name, number)
        delay = polling.delay(number, age, pending, self._rng)
        told = f"The job polls {name!r} again in {delay:.1f} s."
        return Suspended(Snooze(delay, f"poll:{name}"), told)


def _answer(begun: _Begun) -> Any:
    assert isinstance(begun.polls.answer, Raw)
    return begun.recorded.decode(bytes(begun.polls.answer).decode())
