"""Whether a queue or a lane is open at this hour."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from penstock.store.insights import Row


class Window(Struct, frozen=True, kw_only=True):
    """Open or closed, and for how long still."""

    is_open: bool = True
    changes_in: float | None = None
    """Seconds until it closes or opens; None if it never does."""

    @property
    def is_shut(self) -> bool:
        """Whether it is closed for ever."""
        return not self.is_open and self.changes_in is None

    def changes_at(self, now: datetime) -> datetime | None:
        """When it closes or opens, to the second: `now` was read a moment before or after."""
        if self.changes_in is None:
            return None
        return (now + timedelta(seconds=self.changes_in + 0.5)).replace(microsecond=0)

    def within(self, other: Window) -> Window:
        """Both at once: open while both are. Closed, at least until the later of them opens."""
        if self.is_open and other.is_open:
            known = [each.changes_in for each in (self, other) if each.changes_in is not None]
            return Window(is_open=True, changes_in=min(known, default=None))
        closed = [each for each in (self, other) if not each.is_open]
        if any(each.changes_in is None for each in closed):
            return Window(is_open=False)
        return Window(is_open=False, changes_in=max(each.changes_in or 0.0 for each in closed))


def lane_window(row: Row) -> Window:
    """The window of a lane within its queue's, from a row that has both; taken out of it."""
    lane = Window(is_open=row.pop("lane_open"), changes_in=row.pop("lane_changes_in"))
    queue = Window(is_open=row.pop("queue_open"), changes_in=row.pop("queue_changes_in"))
    return lane.within(queue)
