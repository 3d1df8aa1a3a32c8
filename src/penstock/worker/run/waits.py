"""How sleeps, polls and waits for events end an attempt, and how a later attempt continues."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import UNSET, Raw, Struct, json

from penstock.errors import EventTimeout, PollTimeout, StaleAttempt
from penstock.outcome import Snooze, Waiting
from penstock.store.steps import AwaitedEvent
from penstock.tasks.handler.failure import retry_after
from penstock.tasks.handler.steps import StepResult, step_name
from penstock.tasks.handler.waits import Pending, PollSettings, PollState, Suspended, as_pending
from penstock.worker.run.steps import SavedSteps, unawaited_result
from penstock.worker.run.threads import Bridge


class _SleepRecord(Struct):
    until: datetime


async def sleep(
    saved_steps: SavedSteps, *, until: datetime | None = None, seconds: float = 0.0
) -> None:
    """Return if the sleep is over by the database's clock. Otherwise end the attempt until then."""
    name = str(saved_steps.next_number("sleep"))
    saved = await saved_steps.find("sleep", name)
    # The job has been ready since then, by that same clock, so earlier sleeps need not be asked
    # for.
    ready_at = saved_steps.attempt.job.row["ready_at"]
    if saved is not None and json.decode(saved, type=_SleepRecord).until <= ready_at:
        return
    left = await saved_steps.journal.sleep(saved_steps.attempt, name, until, seconds)
    if left > 0:
        raise Suspended(Snooze(left, f"sleep:{name}"), f"The job sleeps for {left:.1f} s.")


# The pause while a transaction that sends such an event is still open.
BUSY_RETRY_S = 1.0


class _EventRecord(Struct):
    """The event that a step has received, or the fact that none came in time."""

    event: int = 0
    payload: Any = None
    timed_out: bool = False


async def wait_for_event(saved_steps: SavedSteps, name: str, timeout: float | None) -> Any:
    """Return the payload of the next event with this name.

    If there is none yet, end the attempt. Raise EventTimeout if none came in time.
    """
    number = saved_steps.next_number(f"event {name}")
    step = f"{name}:{number}"
    saved = await saved_steps.find("event", step)
    if saved is None:
        after = _last_event(saved_steps, name, number)
        saved = await _ask_for_event(saved_steps, step, name, after, timeout)
    record = json.decode(saved, type=_EventRecord)
    if record.timed_out:
        raise EventTimeout(name)
    return record.payload


async def _ask_for_event(
    saved_steps: SavedSteps, step: str, name: str, after: int, timeout: float | None
) -> str:
    awaited: AwaitedEvent = await saved_steps.journal.wait_for_event(
        saved_steps.attempt, step, name, after, timeout
    )
    message = f"The job waits for the event {name!r}."
    if awaited.answer == "wait":
        raise Suspended(Waiting(f"event:{name}"), message)
    if awaited.answer == "busy":
        raise Suspended(Snooze(BUSY_RETRY_S, f"event:{name}"), message)
    assert awaited.result is not None
    saved_steps.remember("event", step, awaited.result)
    return awaited.result


def _last_event(saved_steps: SavedSteps, name: str, number: int) -> int:
    """Return the id of the last event with this name that the job has received, or 0."""
    earlier = (
        saved_steps.get_known("event", f"{name}:{index}") for index in range(number - 1, 0, -1)
    )
    events = (json.decode(saved, type=_EventRecord).event for saved in earlier if saved is not None)
    return next((event for event in events if event), 0)


logger = logging.getLogger("penstock.worker")


class _PollCall(NamedTuple):
    name: str
    recorded: StepResult
    polls: PollState


class Poller:
    """Runs `ctx.poll`: calls the handler's function, and remembers how often."""

    def __init__(self, saved_steps: SavedSteps, polling: PollSettings) -> None:
        self._saved_steps = saved_steps
        self._polling = polling
        self._rng = random.Random()

    async def run(
        self, name: str, check: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        call = await self._begin(name, check)
        if call.polls.answer is UNSET:
            try:
                value = check(*args, **kwargs)
                if isinstance(value, Awaitable):
                    value = await value
            except Exception as error:
                value = self._pending_on_error(call, error)
            call = await self._end(call, value)
        return _decode_answer(call)

    def run_blocking(
        self,
        bridge: Bridge,
        name: str,
        check: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        call = bridge.run(self._begin(name, check))
        if call.polls.answer is UNSET:
            try:
                value = check(*args, **kwargs)
            except Exception as error:
                value = self._pending_on_error(call, error)
            if isinstance(value, Awaitable):
                raise unawaited_result(name, value)
            call = bridge.run(self._end(call, value))
        return _decode_answer(call)

    async def _begin(self, name: str, check: Callable[..., Any]) -> _PollCall:
        name = step_name(name)
        polls = PollState.read(await self._saved_steps.find("poll", name))
        if polls.timed_out:
            raise PollTimeout(name, polls.polls)
        return _PollCall(name, StepResult(name, check), polls)

    def _pending_on_error(self, call: _PollCall, error: Exception) -> Pending:
        """Treat a retryable error as a poll without an answer. Raise any other error."""
        attempt = self._saved_steps.attempt
        if isinstance(error, StaleAttempt) or not attempt.task.failed(error).retryable:
            raise error
        kind = type(error).__name__
        logger.warning("%r polled %r and got no answer: %s", attempt, call.name, kind)
        return Pending(retry_after(error))

    async def _end(self, call: _PollCall, value: Any) -> _PollCall:
        number = call.polls.polls + 1
        if (pending := as_pending(value)) is not None:
            raise await self._suspension(call.name, number, pending)
        encoded = call.recorded.encode(value)
        call.recorded.decode(encoded)
        polls = PollState(number, Raw(encoded.encode()))
        await self._saved_steps.save("poll", call.name, polls.text)
        return call._replace(polls=polls)

    async def _suspension(self, name: str, number: int, pending: Pending) -> BaseException:
        """Return the exception that ends an attempt whose poll got no answer."""
        polling = self._polling
        age = await self._saved_steps.save("poll", name, PollState(number).text)
        if polling.is_over(number, age):
            await self._saved_steps.save("poll", name, PollState(number, timed_out=True).text)
            return PollTimeout(name, number)
        delay = polling.delay(number, age, pending, self._rng)
        message = f"The job polls {name!r} again in {delay:.1f} s."
        return Suspended(Snooze(delay, f"poll:{name}"), message)


def _decode_answer(call: _PollCall) -> Any:
    assert isinstance(call.polls.answer, Raw)
    return call.recorded.decode(bytes(call.polls.answer).decode())
