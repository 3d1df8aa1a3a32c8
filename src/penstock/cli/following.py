"""Follow what ends, be it a job, a batch or a workflow, and draw it meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.cli.errors import DatabaseUnreachable
from penstock.cli.opening import Reached, plain_errors
from penstock.cli.output import terminal
from penstock.connect.wait import PollTimer
from penstock.errors import DatabaseLost, PenstockError

if TYPE_CHECKING:
    from rich.console import RenderableType

Seen = TypeVar("Seen")

# How long a wait bears it that the database does not answer. Seconds.
AWAY = 60.0


@dataclass(frozen=True, slots=True)
class Course(Generic[Seen]):
    """What is followed: how to look at it, when it is over, how it is drawn, what being late is."""

    kind: str
    id: str
    look: Callable[[], Awaitable[Seen]]
    is_over: Callable[[Seen], bool]
    draw: Callable[[Seen], RenderableType]
    late: Callable[[Seen, float], Awaitable[PenstockError]]


async def follow(queue: Reached, course: Course[Seen], timeout: float | None) -> Seen:
    """Wait for its end, and meanwhile draw it on stderr if that is a terminal."""
    from rich.live import Live

    patience = PollTimer(timeout)
    console = terminal(stderr=True)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while not course.is_over(seen := await _look(queue, course, patience)):
            if console.is_terminal:
                live.update(course.draw(seen), refresh=True)
            if patience.is_over:
                raise await course.late(seen, timeout or 0.0)
            await patience.pause()
    return seen


async def _look(queue: Reached, course: Course[Seen], patience: PollTimer) -> Seen:
    """Look at it. A database that is away is waited for: most come back, as after a restart."""
    away = PollTimer(AWAY)
    while True:
        try:
            with plain_errors(queue.app.database):
                return await course.look()
        except (DatabaseUnreachable, DatabaseLost) as error:
            if patience.is_over or away.is_over:
                why, what = str(error).rstrip("."), f"{course.kind} {course.id}"
                told = f"{why}. {what} is stored there, and goes on when it is back."
                raise DatabaseUnreachable(told, id=course.id) from error
        await patience.pause()
