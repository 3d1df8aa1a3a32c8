"""`ctx.sleep`: the attempt ends, and the job goes on behind the sleep when its time has come."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, json

from penstock.outcome import Snooze
from penstock.tasks.handler.waits import Suspended
from penstock.worker.steps import Memory


class _Slept(Struct):
    until: datetime


async def sleep(memory: Memory, *, until: datetime | None = None, seconds: float = 0.0) -> None:
    """Go on if the sleep is over by the database's clock, else end the attempt until then."""
    name = str(memory.count("sleep"))
    saved = await memory.find("sleep", name)
    # Ready since then, by that same clock: it need not be asked again for every sleep before.
    ready_at = memory.run.attempt.row["ready_at"]
    if saved is not None and json.decode(saved, type=_Slept).until <= ready_at:
        return
    left = await memory.journal.sleep(memory.run, name, until, seconds)
    if left > 0:
        raise Suspended(Snooze(left, f"sleep:{name}"), f"The job sleeps for {left:.1f} s.")
