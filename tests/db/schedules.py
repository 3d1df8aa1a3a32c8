"""Schedules as the tests of their SQL make, look at and fire them."""

import json
from datetime import datetime, timedelta
from typing import Any

from tests.db.engine import NOON, Engine

EVERY = 10.0
MADE = """
INSERT INTO penstock.schedule
    (name, every, request, overlap, catch_up, jitter, on_start, declared, tenant)
VALUES ($1, $2, '{"task": "work", "queue": "mail"}', $3, $4, $5, $6, $7::text::jsonb, $8)
"""
FIRES = """
SELECT tick, kind, ticks, job, why FROM penstock.schedule_fire
WHERE schedule = 'often' ORDER BY tick
"""


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


async def make(engine: Engine, name: str = "often", **given: Any) -> None:
    """A schedule whose first tick is ten seconds after noon."""
    values: dict[str, Any] = {
        "overlap": "allow",
        "catch_up": "skip",
        "jitter": 0.0,
        "on_start": False,
        "declared": None,
        "tenant": "",
    }
    await engine.connection.execute(MADE, name, EVERY, *(values | given).values())
    await engine.connection.execute(
        "UPDATE penstock.schedule SET anchor = $1, done_until = $1 WHERE name = $2", NOON, name
    )


async def look(engine: Engine, now: datetime, **arguments: Any) -> dict[str, Any]:
    return json.loads(await engine.value("list_due_schedules_v1", now=now, **arguments))


async def fire(
    engine: Engine,
    now: datetime,
    *ticks: datetime,
    name: str = "often",
    version: int = 1,
    **given: Any,
) -> str:
    """Fire ticks of a schedule: what the leader does with what it has worked out."""
    firing = {
        "name": name,
        "version": version,
        "ticks": [tick.isoformat() for tick in ticks],
        "next_at": after(100).isoformat(),
    }
    firing |= {key: _text(value) for key, value in given.items()}
    [row] = await engine.call("fire_schedules_v1", fires=json.dumps([firing]), now=now)
    return row["answer"]


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


async def fires(engine: Engine) -> list[tuple[datetime, str, int, bool, str | None]]:
    rows = await engine.connection.fetch(FIRES)
    return [(r["tick"], r["kind"], r["ticks"], r["job"] is not None, r["why"]) for r in rows]


async def ticks_of_jobs(engine: Engine) -> list[datetime]:
    rows = await engine.connection.fetch("SELECT meta FROM penstock.job_all ORDER BY id")
    return [datetime.fromisoformat(json.loads(row["meta"])["tick"]) for row in rows]
