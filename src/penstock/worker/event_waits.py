"""`ctx.wait_for_event`: the attempt ends, and the job goes on when somebody sends the event."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, json

from penstock.errors import EventTimeout
from penstock.outcome import Snooze, Waiting
from penstock.store.events import Awaited
from penstock.tasks.handler.waits import Suspended
from penstock.worker.steps import Memory

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
    awaited: Awaited = await memory.journal.wait_for_event(memory.run, step, name, after, timeout)
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
