"""All who listen at one server, and the watchers that ask the database for them."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct

from penstock.app.application import ReadSnapshots
from penstock.app.client import Client
from penstock.groups.batches import BatchStatus
from penstock.groups.snapshots import KINDS, PRESENT_AT_ONCE, JobNow, OwnerNow, Present, SubjectKind
from penstock.insights import QueueInsight
from penstock.service.problems import Problem
from penstock.service.routing import SCHEMA_REF

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,500}")


class Subject(NamedTuple):
    """A job, a batch, a queue, a tenant, a user or an application's own; `job/42` in text."""

    kind: str
    id: str

    @classmethod
    def parse(cls, text: str, brought: Collection[str] = ()) -> Subject:
        """A subject from its text; a Problem if it is none. `brought` are kinds of applications."""
        kind, _, name = text.partition("/")
        pattern = _NUMBER if kind in ("job", "batch", *brought) else _NAME
        if kind not in (*KINDS, *brought) or not pattern.fullmatch(name):
            known = ["job/42", "batch/42", "queue/…", "tenant/…", "user/…"]
            known += [f"{each}/42" for each in brought]
            told = f"{text[:100]!r} is no subject: {', '.join(known[:-1])} or {known[-1]}."
            raise Problem(422, "does-not-fit", told, fields=[("subject", told)])
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}/{self.id}"


_encode = msgspec.json.Encoder().encode
STATE_TYPES: Final = (JobNow, BatchStatus, QueueInsight, OwnerNow)
_ONE_OF: Final = [{"$ref": SCHEMA_REF.format(name=kind.__name__)} for kind in STATE_TYPES]


class LiveState(Struct, frozen=True, kw_only=True):
    """The whole present state of a subject. The same version is the same state.

    `final`: nothing comes after it. `version` and `state` are null if the subject is gone.
    """

    subject: str
    version: str | None
    final: bool
    state: Annotated[Any, Meta(extra_json_schema={"anyOf": [*_ONE_OF, {"type": "null"}]})]


class Update(Struct, frozen=True, eq=False):
    """The state of a subject, as JSON. Nothing comes after one that is final."""

    subject: Subject
    present: Present | None
    body: bytes

    @classmethod
    def of(cls, subject: Subject, present: Present | None) -> Update:
        """What is told of a subject; None stands for one that is not there."""
        told = LiveState(
            subject=str(subject),
            version=None if present is None else present.version,
            final=present is None or present.is_final,
            state=None if present is None else present.state,
        )
        return cls(subject, present, _encode(told))

    @property
    def is_final(self) -> bool:
        return self.present is None or self.present.is_final

    def is_same(self, version: str | None) -> bool:
        """Whether who has seen this version has seen this state."""
        return bool(version) and self.present is not None and self.present.is_same(version or "")


# Its client has gone; this server stops; it has listened for long enough and should ask again; it
# sends what is no text.
EndReason = Literal["left", "stopping", "over", "binary"]


class Ended(Exception):
    """There is no more to hear."""

    def __init__(self, why: EndReason) -> None:
        self.why = why
        super().__init__(why)


class Listener:
    """A mailbox with room for the newest state of each subject.

    A state that was not taken yet gives way to the next, so a slow client misses what came in
    between and never the last.
    """

    def __init__(self) -> None:
        self._news: dict[Subject, Update] = {}
        self._woken = asyncio.Event()
        self._why: EndReason | None = None
        self._trouble: Exception | None = None

    def tell(self, told: Update) -> None:
        self._news[told.subject] = told
        self._woken.set()

    def trouble(self, error: Exception) -> None:
        """What is in the way of the first look, for one who waits for it."""
        self._trouble = error
        self._woken.set()

    def forget(self, subject: Subject) -> None:
        """Tell nothing more of a subject that is listened to no longer."""
        self._news.pop(subject, None)

    def end(self, why: EndReason) -> None:
        """Let `next` raise Ended, at once."""
        self._why = self._why or why
        self._woken.set()

    async def first(self, seconds: float) -> Update | None:
        """As `next`, but raises what is in the way."""
        await self._wait(seconds, lambda: bool(self._news or self._why or self._trouble))
        if self._trouble is not None and not self._news:
            raise self._trouble
        return self._taken()

    async def next(self, seconds: float) -> Update | None:
        """The next news; None if there is none for so many seconds."""
        await self._wait(seconds, lambda: bool(self._news or self._why))
        return self._taken()

    async def _wait(self, seconds: float, is_woken: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_woken():
                    self._woken.clear()
                    await self._woken.wait()

    def _taken(self) -> Update | None:
        # What is in the box is told before a server stops, but to nobody who has gone.
        if self._why is not None and (self._why == "left" or not self._news):
            raise Ended(self._why)
        return self._news.pop(next(iter(self._news))) if self._news else None


logger = logging.getLogger("penstock.live")

Fetch: TypeAlias = Callable[[Sequence[str]], Awaitable[dict[str, Present]]]

NEVER: Final = float("inf")
# What is due so soon after something else is looked at together with it.
COALESCE_S: Final = 0.05
ERROR_PAUSES_S: Final = (0.25, 2.0)


class PollInterval(NamedTuple):
    """How long after a look the next comes: after a change, and at most."""

    shortest: float
    longest: float


# A count costs more than a look at rows by their ids.
POLL_INTERVALS: Final[dict[str, PollInterval]] = {
    "job": PollInterval(0.25, 1.0),
    "batch": PollInterval(0.25, 1.0),
    "queue": PollInterval(1.0, 2.0),
    "tenant": PollInterval(1.0, 2.0),
    "user": PollInterval(1.0, 2.0),
}
APPLICATION_POLL_INTERVAL: Final = PollInterval(0.5, 1.0)


class _WatchedSubject:
    """One subject, what was last told of it, and when it is looked at next."""

    def __init__(self, subject: Subject, pace: PollInterval) -> None:
        self.subject = subject
        self.told: Update | None = None
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

    def see(self, told: Update, asked: float) -> None:
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

    def _is_same(self, told: Update) -> bool:
        seen = self.told.present if self.told else None
        if seen is None or told.present is None:
            return seen is told.present
        return seen.is_same(told.present.version)

    @staticmethod
    def _tell(listeners: Iterable[Listener], told: Update) -> None:
        for listener in listeners:
            listener.tell(told)


class Watcher:
    """Looks at subjects of one kind, as one tenant or as none, while anybody listens."""

    def __init__(self, look: Fetch, kind: str, gate: asyncio.Semaphore) -> None:
        self._ask = look
        self._kind = kind
        self._gate = gate
        self._watched: dict[str, _WatchedSubject] = {}
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
            watched = self._watched[subject.id] = _WatchedSubject(
                subject, POLL_INTERVALS.get(self._kind, APPLICATION_POLL_INTERVAL)
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
        pause, longest = ERROR_PAUSES_S
        try:
            while self._watched:
                try:
                    await self._tick()
                    pause = ERROR_PAUSES_S[0]
                except Exception as error:
                    self._trouble(error, is_new=pause == ERROR_PAUSES_S[0])
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
        due = [each for each in self._watched.values() if each.due <= now + COALESCE_S]
        due.sort(key=lambda each: each.due)
        await self._look(due[:PRESENT_AT_ONCE])

    async def _look(self, due: list[_WatchedSubject]) -> None:
        async with self._gate:
            asked = time.monotonic()
            found = await self._ask([each.subject.id for each in due])
        for each in due:
            each.see(Update.of(each.subject, found.get(each.subject.id)), asked)


MAX_LISTENERS: Final = 10_000
# So many connections of the app's pool are in use for looks at once, whoever listens.
MAX_CONCURRENT_QUERIES: Final = 2
# What streams have to say their last word when the server stops.
STOP_TIMEOUT_S: Final = 3.0


class Hub:
    """Who listens to what. While nobody does, nothing is asked."""

    def __init__(self, client_of: Callable[[str | None], Client]) -> None:
        self._client_of = client_of
        self._application_kinds: dict[str, ReadSnapshots] = {}
        self._watches: dict[tuple[str | None, str], Watcher] = {}
        self._listeners: set[Listener] = set()
        self._gate = asyncio.Semaphore(MAX_CONCURRENT_QUERIES)
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_stopping = False

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._listeners)

    def add_kind(self, kind: str, read_snapshots: ReadSnapshots) -> None:
        """Let clients watch subjects of an application's kind."""
        self._application_kinds[kind] = read_snapshots

    def subject(self, text: str) -> Subject:
        """What can be watched here, from its text; a Problem if it is nothing."""
        return Subject.parse(text, self._application_kinds)

    async def look(self, tenant: str | None, subject: Subject) -> Present | None:
        """A subject as it is now."""
        return (await self._look_at(tenant, subject.kind)([subject.id])).get(subject.id)

    def _look_at(self, tenant: str | None, kind: str) -> Fetch:
        if (brought := self._application_kinds.get(kind)) is not None:
            return partial(brought, tenant)
        return partial(self._client_of(tenant).present, cast(SubjectKind, kind))

    def enter(self) -> Listener:
        """A new listener; a Problem if there are too many, or the server is about to stop."""
        if self._is_stopping:
            raise Problem(503, "stopping", "This server is about to stop: connect again.")
        if len(self._listeners) >= MAX_LISTENERS:
            told = f"At most {MAX_LISTENERS:,} connections listen to one server; try again later."
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
            watch = Watcher(self._look_at(tenant, subject.kind), subject.kind, self._gate)
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
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._empty.wait()
        watches, self._watches = self._watches, {}
        for watch in watches.values():
            await watch.stop()
