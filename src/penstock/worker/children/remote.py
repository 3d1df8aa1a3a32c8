"""What a handler asks of the worker, from inside a child process."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec import convert

from penstock.errors import StaleAttempt
from penstock.store import ClaimedJob
from penstock.store.steps import Awaited, Saved
from penstock.store.workflows import Added
from penstock.tasks.workflow import Parent
from penstock.worker.attempt import Attempt
from penstock.worker.children.channel import Channel
from penstock.worker.run.budgets import Budgets
from penstock.worker.run.journal import Journal

Help = Callable[..., Awaitable[Any]]


def help_with(journal: Journal, budgets: Budgets) -> dict[str, Help]:
    """The calls by their names; each gets the attempt that asks."""

    async def save(attempt: Attempt, kind: str, name: str, result: str) -> float:
        return await journal.save(attempt, Saved(kind, name, result))

    async def share(
        attempt: Attempt, kind: str, name: str, result: str, key: bytes, ttl: float
    ) -> None:
        await journal.share(attempt, Saved(kind, name, result), key, ttl)

    async def learn(attempt: Attempt, key: str, share: float) -> None:
        budgets.learn(key, share)

    return {
        "read": journal.read,
        "save": save,
        "recall": journal.recall,
        "share": share,
        "sleep": journal.sleep,
        "wait_for_event": journal.wait_for_event,
        "parents": journal.parents,
        "extend": journal.extend,
        "reserve": lambda attempt, key, units: budgets.reserve(key, units),
        "correct": lambda attempt, key, units: budgets.correct(key, units),
        "close": lambda attempt, key, wait: budgets.close(key, wait),
        "learn": learn,
        "give_back_starts": lambda attempt, keys: budgets.give_back_starts(keys),
    }


class RemoteJournal(Journal):
    """The worker's journal: each call is made there."""

    def __init__(self, line: Channel) -> None:
        self._line = line

    async def read(self, attempt: Attempt) -> list[Saved]:
        return [Saved(*one) for one in await self._call(attempt, "read")]

    async def save(self, attempt: Attempt, saved: Saved) -> float:
        return float(await self._call(attempt, "save", *saved))

    async def recall(self, attempt: Attempt, name: str, key: bytes) -> str | None:
        found: str | None = await self._call(attempt, "recall", name, key)
        return found

    async def share(self, attempt: Attempt, saved: Saved, key: bytes, ttl: float) -> None:
        await self._call(attempt, "share", *saved, key, ttl)

    async def sleep(
        self, attempt: Attempt, name: str, until: datetime | None, seconds: float
    ) -> float:
        return float(await self._call(attempt, "sleep", name, until, seconds))

    async def wait_for_event(
        self, attempt: Attempt, step: str, name: str, after: int, timeout: float | None
    ) -> Awaited:
        return Awaited(*await self._call(attempt, "wait_for_event", step, name, after, timeout))

    async def parents(self, attempt: Attempt) -> list[Parent]:
        return convert(await self._call(attempt, "parents"), list[Parent])

    async def extend(self, attempt: Attempt, call: int, added: str) -> list[Added]:
        return [Added(*one) for one in await self._call(attempt, "extend", call, added)]

    async def _call(self, attempt: Attempt, what: str, *args: Any) -> Any:
        try:
            return await _asked(self._line, attempt.job, what, *args)
        except StaleAttempt:
            attempt.stopped = attempt.stopped or "refused"
            raise


class RemoteBudgets(Budgets):
    """The worker's budgets: each call is made there."""

    def __init__(self, line: Channel) -> None:
        self._line = line
        self._rng = random.Random()
        self._job: ClaimedJob
        self._rated: Sequence[str] = ()
        self.has_rate = lambda key: key in self._rated

    def now_for(self, job: ClaimedJob, rated: Sequence[str]) -> None:
        """The attempt that spends from now on, and those of its keys that have a rate."""
        self._job, self._rated = job, rated

    async def reserve(self, key: str, units: float) -> float | None:
        wait: float | None = await self._call("reserve", key, units)
        return wait

    async def correct(self, key: str, units: float) -> None:
        await self._call("correct", key, units)

    async def close(self, key: str, wait: float) -> float:
        return float(await self._call("close", key, wait))

    def learn(self, key: str, share: float) -> None:
        self._line.tell(self._job.token, "learn", key, share)

    async def give_back_starts(self, keys: Sequence[str]) -> None:
        await self._call("give_back_starts", list(keys))

    async def _call(self, what: str, *args: Any) -> Any:
        return await _asked(self._line, self._job, what, *args)


async def _asked(line: Channel, job: ClaimedJob, what: str, *args: Any) -> Any:
    try:
        return await line.ask(job.token, what, *args)
    except StaleAttempt:
        raise StaleAttempt(str(job.id), job.number) from None
