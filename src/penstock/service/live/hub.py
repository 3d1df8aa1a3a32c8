"""All who listen at one server. The database is the only bus: servers do not know each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, cast

from penstock.app import Brought
from penstock.client import Client, Present, SubjectKind
from penstock.service.live.listener import Listener
from penstock.service.live.subject import Subject
from penstock.service.live.watch import Look, Watch
from penstock.service.problem import Problem

MOST_LISTENERS: Final = 10_000
# So many connections of the app's pool are in use for looks at once, whoever listens.
LOOKS_AT_ONCE: Final = 2
# What streams have to say their last word when the server stops.
FAREWELL: Final = 3.0


class Hub:
    """Who listens to what. While nobody does, nothing is asked."""

    def __init__(self, client_of: Callable[[str | None], Client]) -> None:
        self._client_of = client_of
        self._brought: dict[str, Brought] = {}
        self._watches: dict[tuple[str | None, str], Watch] = {}
        self._listeners: set[Listener] = set()
        self._gate = asyncio.Semaphore(LOOKS_AT_ONCE)
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_stopping = False

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._listeners)

    def bring(self, kind: str, look: Brought) -> None:
        """Let subjects of an application be watched too."""
        self._brought[kind] = look

    def subject(self, text: str) -> Subject:
        """What can be watched here, from its text; a Problem if it is nothing."""
        return Subject.parse(text, self._brought)

    async def look(self, tenant: str | None, subject: Subject) -> Present | None:
        """A subject as it is now."""
        return (await self._look_at(tenant, subject.kind)([subject.id])).get(subject.id)

    def _look_at(self, tenant: str | None, kind: str) -> Look:
        if (brought := self._brought.get(kind)) is not None:
            return partial(brought, tenant)
        return partial(self._client_of(tenant).present, cast(SubjectKind, kind))

    def enter(self) -> Listener:
        """A new listener; a Problem if there are too many, or the server is about to stop."""
        if self._is_stopping:
            raise Problem(503, "stopping", "This server is about to stop: connect again.")
        if len(self._listeners) >= MOST_LISTENERS:
            told = f"At most {MOST_LISTENERS:,} connections listen to one server; try again later."
            raise Problem(503, "too-many-listeners", told)
        listener = Listener()
        self._listeners.add(listener)
        self._empty.clear()
        return listener

    def exit(self, listener: Listener) -> None:
        """Forget one who has left all subjects."""
        self._listeners.discard(listener)
        if not self._listeners:
            self._empty.set()

    def join(self, listener: Listener, tenant: str | None, subject: Subject) -> None:
        """Tell a listener of a subject, as far as a tenant may see it; None sees all."""
        key = tenant, subject.kind
        if (watch := self._watches.get(key)) is None:
            self._watches = {at: each for at, each in self._watches.items() if not each.is_over}
            watch = Watch(self._look_at(tenant, subject.kind), subject.kind, self._gate)
            self._watches[key] = watch
        watch.join(listener, subject)

    def leave(self, listener: Listener, tenant: str | None, subject: Subject) -> None:
        if (watch := self._watches.get((tenant, subject.kind))) is not None:
            watch.leave(listener, subject)
        listener.forget(subject)

    def ask_to_stop(self) -> None:
        """End every stream, and begin no more: for a process that is about to end."""
        self._is_stopping = True
        for listener in tuple(self._listeners):
            listener.end("stopping")

    def start(self) -> None:
        """Let listeners in, again after a stop."""
        self._is_stopping = False

    async def stop(self) -> None:
        """End every stream, give them a moment to say so, and ask the database no more."""
        self.ask_to_stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._empty.wait()
        watches, self._watches = self._watches, {}
        for watch in watches.values():
            await watch.stop()
