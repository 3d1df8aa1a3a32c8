"""The journal and budgets in a child process. Both call those of the worker."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec import convert

from penstock.errors import StaleAttempt
from penstock.store import ClaimedJob
from penstock.store.steps import AwaitedEvent, Saved
from penstock.store.workflows import Added
from penstock.tasks.workflow import Parent
from penstock.worker.attempt import Attempt
from penstock.worker.children.channel import Channel
from penstock.worker.run.budgets import Budgets
from penstock.worker.run.journal import Journal

Call = Callable[..., Awaitable[Any]]


def build_calls(journal: Journal, budgets: Budgets) -> dict[str, Call]:
    """Return the functions that serve a child's requests, by name.

    The first argument of each function is the attempt that made the request.
    """

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
    """Passes the calls of a child's handlers to the worker's journal."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def read(self, attempt: Attempt) -> list[Saved]:
        return [Saved(*row) for row in await self._call(attempt, "read")]

    async def save(self, attempt: Attempt, saved: Saved) -> float:
        return float(await self._call(attempt, "save", *saved))

    async def recall(self, attempt: Attempt, name: str, key: bytes) -> str | None:
        result: str | None = await self._call(attempt, "recall", name, key)
        return result

    async def share(self, attempt: Attempt, saved: Saved, key: bytes, ttl: float) -> None:
        await self._call(attempt, "share", *saved, key, ttl)

    async def sleep(
        self, attempt: Attempt, name: str, until: datetime | None, seconds: float
    ) -> float:
        return float(await self._call(attempt, "sleep", name, until, seconds))

    async def wait_for_event(
        self, attempt: Attempt, step: str, name: str, after: int, timeout: float | None
    ) -> AwaitedEvent:
        return AwaitedEvent(
            *await self._call(attempt, "wait_for_event", step, name, after, timeout)
        )

    async def parents(self, attempt: Attempt) -> list[Parent]:
        return convert(await self._call(attempt, "parents"), list[Parent])

    async def extend(self, attempt: Attempt, call: int, added: str) -> list[Added]:
        return [Added(*row) for row in await self._call(attempt, "extend", call, added)]

    async def _call(self, attempt: Attempt, method: str, *args: Any) -> Any:
        try:
            return await _call_worker(self._channel, attempt.job, method, *args)
        except StaleAttempt:
            attempt.stop_reason = attempt.stop_reason or "refused"
            raise


class RemoteBudgets(Budgets):
    """Passes the calls of a child's handlers to the worker's budgets."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._rng = random.Random()
        self._job: ClaimedJob
        self._rated_keys: Sequence[str] = ()
        self.has_rate = lambda key: key in self._rated_keys

    def serve(self, job: ClaimedJob, rated_keys: Sequence[str]) -> None:
        """Set the job whose handler uses the budgets from now on, with its rate-limited keys."""
        self._job, self._rated_keys = job, rated_keys

    async def reserve(self, key: str, units: float) -> float | None:
        wait: float | None = await self._call("reserve", key, units)
        return wait

    async def correct(self, key: str, units: float) -> None:
        await self._call("correct", key, units)

    async def close(self, key: str, wait: float) -> float:
        return float(await self._call("close", key, wait))

    def learn(self, key: str, share: float) -> None:
        self._channel.notify(self._job.token, "learn", key, share)

    async def give_back_starts(self, keys: Sequence[str]) -> None:
        await self._call("give_back_starts", list(keys))

    async def _call(self, method: str, *args: Any) -> Any:
        return await _call_worker(self._channel, self._job, method, *args)


async def _call_worker(channel: Channel, job: ClaimedJob, method: str, *args: Any) -> Any:
    try:
        return await channel.call(job.token, method, *args)
    except StaleAttempt:
        raise StaleAttempt(str(job.id), job.number) from None
