"""One watcher for all who listen to subjects of a kind: it asks the database, and nobody else.

A settle notifies nobody, because NOTIFY takes a lock over all commits of a server; so this looks,
with one question for all subjects that are due. One that changes is looked at a few times a second,
which is also how often it is told; one that does not, more and more seldom.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from penstock.client import Present
from penstock.client.live import PRESENT_AT_ONCE
from penstock.service.live.listener import Listener
from penstock.service.live.subject import Subject
from penstock.service.live.told import Told

logger = logging.getLogger("penstock.live")

Look: TypeAlias = Callable[[Sequence[str]], Awaitable[dict[str, Present]]]

NEVER: Final = float("inf")
# What is due so soon after something else is looked at together with it.
TOGETHER: Final = 0.05
AFTER_ERROR: Final = (0.25, 2.0)


class Pace(NamedTuple):
    """How long after a look the next comes: after a change, and at most."""

    shortest: float
    longest: float


# A count costs more than a look at rows by their ids.
PACES: Final[dict[str, Pace]] = {
    "job": Pace(0.25, 1.0),
    "batch": Pace(0.25, 1.0),
    "queue": Pace(1.0, 2.0),
    "tenant": Pace(1.0, 2.0),
    "user": Pace(1.0, 2.0),
}
OF_APPLICATIONS: Final = Pace(0.5, 1.0)


class _Watched:
    """One subject, what was last told of it, and when it is looked at next."""

    def __init__(self, subject: Subject, pace: Pace) -> None:
        self.subject = subject
        self.told: Told | None = None
        self.looked = -NEVER
        self.due = -NEVER
        self._pace = pace
        self._gap = pace.shortest
        self._listeners: set[Listener] = set()
        # Those who came since, with the moment: they are told what was asked after it.
        self._new: dict[Listener, float] = {}

    def join(self, listener: Listener) -> None:
        self._new[listener] = time.monotonic()
        self._listeners.discard(listener)
        self.due = min(self.due, self.looked + self._pace.shortest)

    def leave(self, listener: Listener) -> None:
        self._listeners.discard(listener)
        self._new.pop(listener, None)

    def trouble(self, error: Exception) -> None:
        """Tell those who wait for a first look what is in the way."""
        for listener in self._new:
            listener.trouble(error)

    @property
    def is_alone(self) -> bool:
        return not self._listeners and not self._new

    def see(self, told: Told, asked: float) -> None:
        """Tell those who do not know it yet, and settle when to look again."""
        is_news = self.told is None or not self._is_same(told)
        self.told, self.looked = told, time.monotonic()
        if is_news:
            self._tell(self._listeners, told)
        came = [listener for listener, since in self._new.items() if since <= asked]
        self._tell(came, told)
        for listener in came:
            del self._new[listener]
        self._listeners.update(came)
        self._gap = self._pace.shortest if is_news else min(self._gap * 1.5, self._pace.longest)
        if self._new:
            self.due = self.looked + self._pace.shortest
        else:
            self.due = NEVER if told.is_final else self.looked + self._gap

    def _is_same(self, told: Told) -> bool:
        seen = self.told.present if self.told else None
        if seen is None or told.present is None:
            return seen is told.present
        return seen.is_same(told.present.version)

    @staticmethod
    def _tell(listeners: Iterable[Listener], told: Told) -> None:
        for listener in listeners:
            listener.tell(told)


class Watch:
    """Looks at subjects of one kind, as one tenant or as none, while anybody listens."""

    def __init__(self, look: Look, kind: str, gate: asyncio.Semaphore) -> None:
        self._ask = look
        self._kind = kind
        self._gate = gate
        self._watched: dict[str, _Watched] = {}
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether nobody listens, and nothing is asked any more."""
        return not self._watched and self._task is None

    def join(self, listener: Listener, subject: Subject) -> None:
        """Tell the listener the present state as soon as it is known, and then its changes."""
        watched = self._watched.get(subject.id)
        if watched is None:
            watched = self._watched[subject.id] = _Watched(
                subject, PACES.get(self._kind, OF_APPLICATIONS)
            )
        watched.join(listener)
        self._woken.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"penstock live {self._kind}")

    def leave(self, listener: Listener, subject: Subject) -> None:
        if (watched := self._watched.get(subject.id)) is None:
            return
        watched.leave(listener)
        if watched.is_alone:
            del self._watched[subject.id]
            self._woken.set()

    async def stop(self) -> None:
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        pause, longest = AFTER_ERROR
        try:
            while self._watched:
                try:
                    await self._tick()
                    pause = AFTER_ERROR[0]
                except Exception as error:
                    self._trouble(error, is_new=pause == AFTER_ERROR[0])
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, longest)
        finally:
            self._task = None

    def _trouble(self, error: Exception, *, is_new: bool) -> None:
        """Those who listen hear nothing meanwhile, and then what has become of it."""
        if is_new:
            logger.warning("What is watched cannot be looked at, for now: %s", error)
        for watched in self._watched.values():
            watched.trouble(error)

    async def _tick(self) -> None:
        """Look at what is due, or sleep until something is."""
        self._woken.clear()
        now = time.monotonic()
        if (first := min(each.due for each in self._watched.values())) > now:
            try:
                async with asyncio.timeout(None if first == NEVER else first - now):
                    await self._woken.wait()
            except TimeoutError:
                pass
            return
        due = [each for each in self._watched.values() if each.due <= now + TOGETHER]
        due.sort(key=lambda each: each.due)
        await self._look(due[:PRESENT_AT_ONCE])

    async def _look(self, due: list[_Watched]) -> None:
        async with self._gate:
            asked = time.monotonic()
            found = await self._ask([each.subject.id for each in due])
        for each in due:
            each.see(Told.of(each.subject, found.get(each.subject.id)), asked)
