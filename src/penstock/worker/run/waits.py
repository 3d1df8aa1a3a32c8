"""How an attempt ends whose handler sleeps, polls or waits for an event, and how it goes on."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import UNSET, Raw, Struct, json

from penstock.errors import EventTimeout, PollTimeout, StaleAttempt
from penstock.outcome import Snooze, Waiting
from penstock.store.steps import Awaited
from penstock.tasks.handler.failure import retry_after
from penstock.tasks.handler.steps import Recorded, step_name
from penstock.tasks.handler.waits import Pending, Polling, Polls, Suspended, pending_of
from penstock.worker.run.steps import Memory, unawaited
from penstock.worker.run.threads import Bridge


class _Slept(Struct):
    until: datetime


async def sleep(memory: Memory, *, until: datetime | None = None, seconds: float = 0.0) -> None:
    """Go on if the sleep is over by the database's clock, else end the attempt until then."""
    name = str(memory.count("sleep"))
    saved = await memory.find("sleep", name)
    # Ready since then, by that same clock: it need not be asked again for every sleep before.
    ready_at = memory.attempt.job.row["ready_at"]
    if saved is not None and json.decode(saved, type=_Slept).until <= ready_at:
        return
    left = await memory.journal.sleep(memory.attempt, name, until, seconds)
    if left > 0:
        raise Suspended(Snooze(left, f"sleep:{name}"), f"The job sleeps for {left:.1f} s.")


# While somebody sends such an event, in a transaction that is still open.
BUSY = 1.0


class _Got(Struct):
    """An event as its step keeps it, or that there was none in time."""

    event: int = 0
    payload: Any = None
    timed_out: bool = False


async def wait_for_event(memory: Memory, name: str, timeout: float | None) -> Any:
    """The payload of the next event of a name; ends the attempt if there is none yet."""
    number = memory.count(f"event {name}")
    step = f"{name}:{number}"
    saved = await memory.find("event", step)
    if saved is None:
        after = _last_event(memory, name, number)
        saved = await _asked(memory, step, name, after, timeout)
    got = json.decode(saved, type=_Got)
    if got.timed_out:
        raise EventTimeout(name)
    return got.payload


async def _asked(memory: Memory, step: str, name: str, after: int, timeout: float | None) -> str:
    awaited: Awaited = await memory.journal.wait_for_event(
        memory.attempt, step, name, after, timeout
    )
    told = f"The job waits for the event {name!r}."
    if awaited.answer == "wait":
        raise Suspended(Waiting(f"event:{name}"), told)
    if awaited.answer == "busy":
        raise Suspended(Snooze(BUSY, f"event:{name}"), told)
    assert awaited.result is not None
    memory.note("event", step, awaited.result)
    return awaited.result


def _last_event(memory: Memory, name: str, number: int) -> int:
    """The last event of this name that the job has had; 0 if it has had none."""
    earlier = (memory.known("event", f"{name}:{one}") for one in range(number - 1, 0, -1))
    events = (json.decode(saved, type=_Got).event for saved in earlier if saved is not None)
    return next((event for event in events if event), 0)


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
        attempt = self._memory.attempt
        if isinstance(error, StaleAttempt) or not attempt.task.failed(error).retryable:
            raise error
        kind = type(error).__name__
        logger.warning("%r polled %r in vain: %s", attempt, begun.name, kind)
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
