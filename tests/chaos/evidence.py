"""All that is known after a run: the database's journal and rows, the clients' log, the effects."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from tests.chaos.lines import Reader

JOURNAL = "SELECT seq, at, source, was, now FROM chaos.journal ORDER BY seq"
ROWS = "SELECT id, state, reason, task, subject, attempt, last_token FROM penstock.job_all"
EFFECT_ROWS = "SELECT job, count(*) AS times FROM chaos.effect GROUP BY job"


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of a row, as its trigger saw it.

    `source` is `job`, `history`, `lease`, `grant` and `limit` of slots, or `fire` of a schedule.
    """

    seq: int
    at: datetime
    source: str
    was: dict[str, Any] | None
    now: dict[str, Any] | None

    @property
    def id(self) -> int:
        row: dict[str, Any] = self.now or self.was or {}
        return int(row["id"])


@dataclass(slots=True)
class Evidence:
    """What the checker looks at. Hand-made in its own tests."""

    journal: list[Entry] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    log: list[dict[str, Any]] = field(default_factory=list)
    effects: list[dict[str, Any]] = field(default_factory=list)
    effect_rows: Counter[int] = field(default_factory=Counter)
    # How often the database crashed: a claim's commit may be lost then, which is no fault.
    crashes: int = 0
    # When the last fault was over, and in how many seconds all must be done.
    calm_at: datetime | None = None
    patience: float = 30.0

    def lines(self, operation: str, outcome: str) -> list[dict[str, Any]]:
        wanted = (operation, outcome)
        return [each for each in self.log if (each["operation"], each["outcome"]) == wanted]


async def gather(connection: asyncpg.Connection, folder: Path) -> Evidence:
    """Read everything; the processes have ended or have nothing left to do."""
    return Evidence(
        journal=[_entry(row) for row in await connection.fetch(JOURNAL)],
        rows=[dict(row) for row in await connection.fetch(ROWS)],
        log=Reader(folder / "log.jsonl").read(),
        effects=Reader(folder / "effects.jsonl").read(),
        effect_rows=Counter(
            {row["job"]: row["times"] for row in await connection.fetch(EFFECT_ROWS)}
        ),
    )


def _entry(row: asyncpg.Record) -> Entry:
    was, now = (
        None if row[side] is None else msgspec.json.decode(row[side]) for side in ("was", "now")
    )
    return Entry(row["seq"], row["at"], row["source"], was, now)
