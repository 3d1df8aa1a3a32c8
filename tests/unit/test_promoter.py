"""When the promoter of scheduled jobs looks, and from where."""

from datetime import UTC, datetime
from typing import Any

from penstock.lifecycle import DatabaseHealth
from penstock.maintenance.promotion import Promoter
from penstock.telemetry import Events

NEWS = datetime(2020, 1, 1, tzinfo=UTC)


class ToldMeanwhile:
    """A database that finds nothing due, and tells of a job in the middle of the first look."""

    def __init__(self) -> None:
        self.cursors: list[datetime | None] = []
        self.promoter = Promoter(
            None,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            DatabaseHealth(Events()),
            leads=lambda: True,
            max_pause=lambda: 3600.0,
        )

    async def promote(self, pool: Any, cursor: datetime | None, limit: int) -> tuple[Any, ...]:
        self.cursors.append(cursor)
        if len(self.cursors) == 1:
            self.promoter.note_due(NEWS)
        return 0, datetime.now(UTC), None


async def test_promoter_keeps_news_that_arrives_during_its_scan() -> None:
    """It is of a job that was committed behind the run's cursor."""
    told = ToldMeanwhile()
    await told.promoter.tick()
    assert told.promoter.is_woken
    await told.promoter.tick()
    # From there, or from the beginning if it is time for that.
    assert told.cursors[1] in (None, NEWS)
