"""How many jobs ran at once, as they wrote it down themselves."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import asyncpg

SPANS = "SELECT job, lane, worker, began, ended FROM chaos.span ORDER BY began"


class Span:
    """From when to when a handler ran; one that was killed ran until its worker died."""

    def __init__(self, row: asyncpg.Record, deaths: dict[str, datetime]) -> None:
        self.job: int = row["job"]
        self.lane: str = row["lane"]
        self.began: datetime = row["began"]
        self.ended: datetime = row["ended"] or deaths[row["worker"]]


async def spans(connection: asyncpg.Connection, deaths: dict[str, datetime]) -> list[Span]:
    return [Span(row, deaths) for row in await connection.fetch(SPANS)]


def most_at_once(spans: Iterable[Span]) -> int:
    """The most that ran at any one moment."""
    changes: Counter[datetime] = Counter()
    for span in spans:
        changes[span.began] += 1
        changes[span.ended] -= 1
    running = most = 0
    for moment in sorted(changes):
        running += changes[moment]
        most = max(most, running)
    return most
