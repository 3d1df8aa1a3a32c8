"""What a job has kept from attempt to attempt, and which events it waits for."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from penstock.insights.wait import Wait
from penstock.job import Job
from penstock.store.insights import Row

# So many steps of a job are shown; few have more.
STEPS = 1000


class StepInsight(Struct, frozen=True, kw_only=True):
    """One thing that a job has kept: the result of a step, a sleep, an event, its polls."""

    kind: Literal["step", "sleep", "event", "poll"]
    name: str
    at: datetime
    size: int
    """How many bytes its result takes as JSON."""
    note: str | None
    """What there is to say about it, such as until when it sleeps; nothing about a step."""


class EventWait(Struct, frozen=True):
    """An event that a job waits for, and until when, if not for ever."""

    name: str
    until: datetime | None = None


def steps_from(rows: Sequence[Row]) -> tuple[StepInsight, ...]:
    """Steps from the rows of `look_at_steps`."""
    return tuple(
        StepInsight(
            kind=row["kind"],
            name=row["name"],
            at=row["created_at"],
            size=row["size"] or 0,
            note=_note(row["kind"], msgspec.json.decode(row["result"] or "null")),
        )
        for row in rows
    )


def _note(kind: str, kept: Any) -> str | None:
    match kind, kept:
        case "sleep", {"until": until}:
            return f"until {datetime.fromisoformat(until):%Y-%m-%d %H:%M:%S} UTC"
        case "event", {"event": number}:
            return f"got event {number}"
        case "poll", {"polls": polls}:
            counted = f"{polls:,} {'poll' if polls == 1 else 'polls'}"
            return counted + (", answered" if "answer" in kept else _out_of_time(kept))
        case "event", _:
            return "not sent in time"
        case _:
            return None


def _out_of_time(kept: dict[str, Any]) -> str:
    return ", given up" if kept.get("timed_out") else ", no answer yet"


def event_waits(job: Job, events: Sequence[EventWait]) -> tuple[Wait, ...]:
    """Why a job waits that waits for events."""
    return tuple(Wait("event", _waits_for(event, job.tenant)) for event in events)


def _waits_for(event: EventWait, tenant: str) -> str:
    until = "" if event.until is None else f", until {event.until:%Y-%m-%d %H:%M:%S} UTC"
    send = ["penstock", "events", "send", event.name, *(("--tenant", tenant) if tenant else ())]
    return f"It waits for the event {event.name}{until}. `{shlex.join(send)}` sends it."


def pause_of(job: Job, due: str) -> Wait | None:
    """Why a job waits that has put itself off."""
    kind, _, name = (job.reason or "").partition(":")
    if kind == "sleep":
        return Wait("sleep", f"It sleeps until {due}.")
    if kind == "poll":
        return Wait("poll", f"It asks whether {name} is there again at {due}.")
    if kind == "event":
        return Wait("event", f"It looks again for the event {name} at {due}.")
    return None
