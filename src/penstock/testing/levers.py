"""Statements that only tests send: they do to the queue what time and accidents do to it."""

from __future__ import annotations

from datetime import datetime

from penstock.store import Executor, Store


class Levers(Store):
    """The queue's statements, and those that bring about what a test cannot wait for."""

    async def advance(self, on: Executor, seconds: float | None, moment: datetime | None) -> None:
        """Let so many seconds pass for everything that is stored, or else pass until a moment."""
        await on.fetch(self.statement("make_room_to_advance"), seconds, moment, self.schema)
        await on.fetch(self.statement("advance"), seconds, moment)

    async def lose(self, on: Executor, job: int) -> bool:
        """Take a job away from the attempt that runs it; False if none does."""
        return bool(await on.fetch(self.statement("lose"), job))

    async def cut_connections(self, on: Executor, name: str) -> int:
        """End the connections that go by a name."""
        return len(await on.fetch(self.statement("cut_connections"), name))
