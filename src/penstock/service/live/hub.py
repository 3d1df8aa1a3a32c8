"""Connect the listeners of one server with watchers, which poll the database for them."""

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
    """What a client can watch: a job, batch, queue, tenant or user, or an application's own kind.

    As text, a subject is written as its kind and id, such as `job/42`.
    """

    kind: str
    id: str

    @classmethod
    def parse(cls, text: str, application_kinds: Collection[str] = ()) -> Subject:
        """Parse a subject. Raises a Problem if the text is not a subject of a known kind."""
        kind, _, name = text.partition("/")
        pattern = _NUMBER if kind in ("job", "batch", *application_kinds) else _NAME
        if kind not in (*KINDS, *application_kinds) or not pattern.fullmatch(name):
            examples = ["job/42", "batch/42", "queue/…", "tenant/…", "user/…"]
            examples += [f"{each}/42" for each in application_kinds]
            first_examples = ", ".join(examples[:-1])
            detail = f"{text[:100]!r} is not a subject such as {first_examples} or {examples[-1]}."
            raise Problem(422, "does-not-fit", detail, fields=[("subject", detail)])
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.kind}/{self.id}"


_encode = msgspec.json.Encoder().encode
STATE_TYPES: Final = (JobNow, BatchStatus, QueueInsight, OwnerNow)
_ONE_OF: Final = [{"$ref": SCHEMA_REF.format(name=kind.__name__)} for kind in STATE_TYPES]


class LiveState(Struct, frozen=True, kw_only=True):
    """The whole present state of a subject. Equal versions mean equal states.

    If `final` is true, no other state follows. `version` and `state` are null if the subject does
    not exist any more.
    """

    subject: str
    version: str | None
    final: bool
    state: Annotated[Any, Meta(extra_json_schema={"anyOf": [*_ONE_OF, {"type": "null"}]})]


class Update(Struct, frozen=True, eq=False):
    """A state of a subject, encoded as JSON. A final update is the last one."""

    subject: Subject
    present: Present | None
    body: bytes

    @classmethod
    def of(cls, subject: Subject, present: Present | None) -> Update:
        """Make an update from a snapshot. `present` is None if the subject does not exist."""
        live_state = LiveState(
            subject=str(subject),
            version=None if present is None else present.version,
            final=present is None or present.is_final,
            state=None if present is None else present.state,
        )
        return cls(subject, present, _encode(live_state))

    @property
    def is_final(self) -> bool:
        return self.present is None or self.present.is_final

    def is_same(self, version: str | None) -> bool:
        """Return whether a client that has seen `version` has seen the state of this update."""
        return bool(version) and self.present is not None and self.present.is_same(version or "")


# The client has left; the server stops; the connection is so old that the client should connect
# again; the client sent bytes instead of text.
EndReason = Literal["left", "stopping", "over", "binary"]


class StreamEnded(Exception):
    """Raised when a listener gets no more updates."""

    def __init__(self, reason: EndReason) -> None:
        self.reason = reason
        super().__init__(reason)


class Mailbox:
    """Holds the newest state of each subject until the listener takes it.

    A newer state replaces one that was not taken yet. A slow client may therefore miss states in
    between, but never the last one.
    """

    def __init__(self) -> None:
        self._updates: dict[Subject, Update] = {}
        self._changed = asyncio.Event()
        self._end_reason: EndReason | None = None
        self._error: Exception | None = None

    def put(self, update: Update) -> None:
        self._updates[update.subject] = update
        self._changed.set()

    def fail(self, error: Exception) -> None:
        """Report an error. A call of `first` raises it if no update has arrived."""
        self._error = error
        self._changed.set()

    def forget(self, subject: Subject) -> None:
        """Drop the update of a subject that the client no longer watches."""
        self._updates.pop(subject, None)

    def end(self, reason: EndReason) -> None:
        """Let `next` raise StreamEnded, at once if the client left, else after the last update."""
        self._end_reason = self._end_reason or reason
        self._changed.set()

    async def first(self, seconds: float) -> Update | None:
        """Wait for an update like `next`, but raise the error if the database cannot be read."""
        await self._wait(seconds, lambda: bool(self._updates or self._end_reason or self._error))
        if self._error is not None and not self._updates:
            raise self._error
        return self._take()

    async def next(self, seconds: float) -> Update | None:
        """Wait for the next update. Returns None if none arrives within `seconds`.

        Raises StreamEnded if no more updates will come.
        """
        await self._wait(seconds, lambda: bool(self._updates or self._end_reason))
        return self._take()

    async def _wait(self, seconds: float, is_done: Callable[[], bool]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_done():
                    self._changed.clear()
                    await self._changed.wait()

    def _take(self) -> Update | None:
        # A stopping server still sends the updates that wait. A client that has left gets none.
        if self._end_reason is not None and (self._end_reason == "left" or not self._updates):
            raise StreamEnded(self._end_reason)
        return self._updates.pop(next(iter(self._updates))) if self._updates else None


logger = logging.getLogger("penstock.live")

Fetch: TypeAlias = Callable[[Sequence[str]], Awaitable[dict[str, Present]]]

NEVER: Final = float("inf")
# Subjects that are due this soon after the first one are fetched together with it.
COALESCE_S: Final = 0.05
ERROR_PAUSES_S: Final = (0.25, 2.0)


class PollInterval(NamedTuple):
    """The shortest and the longest time between two polls of a subject, in seconds.

    After a change the shortest applies. Each poll without a change makes it longer.
    """

    shortest: float
    longest: float


# Counting costs more than reading rows by their ids.
POLL_INTERVALS: Final[dict[str, PollInterval]] = {
    "job": PollInterval(0.25, 1.0),
    "batch": PollInterval(0.25, 1.0),
    "queue": PollInterval(1.0, 2.0),
    "tenant": PollInterval(1.0, 2.0),
    "user": PollInterval(1.0, 2.0),
}
APPLICATION_POLL_INTERVAL: Final = PollInterval(0.5, 1.0)


class _WatchedSubject:
    """A subject with its listeners, its last update and the time of its next poll."""

    def __init__(self, subject: Subject, interval: PollInterval) -> None:
        self.subject = subject
        self.last_update: Update | None = None
        self.polled_at = -NEVER
        self.due = -NEVER
        self._interval = interval
        self._next_interval = interval.shortest
        self._listeners: set[Mailbox] = set()
        # New listeners, with the time when they joined. Only a poll that began after that time
        # gives them their first state.
        self._new: dict[Mailbox, float] = {}

    def join(self, listener: Mailbox) -> None:
        self._new[listener] = time.monotonic()
        self._listeners.discard(listener)
        self.due = min(self.due, self.polled_at + self._interval.shortest)

    def leave(self, listener: Mailbox) -> None:
        self._listeners.discard(listener)
        self._new.pop(listener, None)

    def fail(self, error: Exception) -> None:
        """Report an error to the listeners that wait for their first state."""
        for listener in self._new:
            listener.fail(error)

    @property
    def has_no_listeners(self) -> bool:
        return not self._listeners and not self._new

    def publish(self, update: Update, poll_began_at: float) -> None:
        """Pass an update to the listeners that have not seen it, and schedule the next poll."""
        is_change = self.last_update is None or not self._is_same(update)
        self.last_update, self.polled_at = update, time.monotonic()
        if is_change:
            self._put(self._listeners, update)
        served = [listener for listener, since in self._new.items() if since <= poll_began_at]
        self._put(served, update)
        for listener in served:
            del self._new[listener]
        self._listeners.update(served)
        shortest, longest = self._interval
        self._next_interval = shortest if is_change else min(self._next_interval * 1.5, longest)
        if self._new:
            self.due = self.polled_at + shortest
        else:
            self.due = NEVER if update.is_final else self.polled_at + self._next_interval

    def _is_same(self, update: Update) -> bool:
        last = self.last_update.present if self.last_update else None
        if last is None or update.present is None:
            return last is update.present
        return last.is_same(update.present.version)

    @staticmethod
    def _put(listeners: Iterable[Mailbox], update: Update) -> None:
        for listener in listeners:
            listener.put(update)


class Watcher:
    """Polls subjects of one kind, for one tenant or for all, while anybody listens."""

    def __init__(self, fetch: Fetch, kind: str, query_slots: asyncio.Semaphore) -> None:
        self._fetch = fetch
        self._kind = kind
        self._query_slots = query_slots
        self._watched: dict[str, _WatchedSubject] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Return whether nobody listens and no poll is running."""
        return not self._watched and self._task is None

    def join(self, listener: Mailbox, subject: Subject) -> None:
        """Send a subject's present state to a listener once it is read, and then each new state."""
        watched = self._watched.get(subject.id)
        if watched is None:
            watched = self._watched[subject.id] = _WatchedSubject(
                subject, POLL_INTERVALS.get(self._kind, APPLICATION_POLL_INTERVAL)
            )
        watched.join(listener)
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"penstock live {self._kind}")

    def leave(self, listener: Mailbox, subject: Subject) -> None:
        if (watched := self._watched.get(subject.id)) is None:
            return
        watched.leave(listener)
        if watched.has_no_listeners:
            del self._watched[subject.id]
            self._changed.set()

    async def stop(self) -> None:
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        pause, longest = ERROR_PAUSES_S
        try:
            while self._watched:
                try:
                    await self._poll_or_sleep()
                    pause = ERROR_PAUSES_S[0]
                except Exception as error:
                    self._fail(error, is_new=pause == ERROR_PAUSES_S[0])
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, longest)
        finally:
            self._task = None

    def _fail(self, error: Exception, *, is_new: bool) -> None:
        """Log the first of several failed polls. Report each to listeners without a first state.

        The other listeners just wait for a poll that succeeds.
        """
        if is_new:
            logger.warning("Live updates pause, because the database cannot be read: %s", error)
        for watched in self._watched.values():
            watched.fail(error)

    async def _poll_or_sleep(self) -> None:
        """Poll the subjects that are due. If none is, sleep until one is or listeners change."""
        self._changed.clear()
        now = time.monotonic()
        if (first := min(each.due for each in self._watched.values())) > now:
            try:
                async with asyncio.timeout(None if first == NEVER else first - now):
                    await self._changed.wait()
            except TimeoutError:
                pass
            return
        due = [each for each in self._watched.values() if each.due <= now + COALESCE_S]
        due.sort(key=lambda each: each.due)
        await self._poll(due[:PRESENT_AT_ONCE])

    async def _poll(self, due: list[_WatchedSubject]) -> None:
        async with self._query_slots:
            began_at = time.monotonic()
            snapshots = await self._fetch([each.subject.id for each in due])
        for each in due:
            each.publish(Update.of(each.subject, snapshots.get(each.subject.id)), began_at)


MAX_LISTENERS: Final = 10_000
# All watchers together use at most this many connections of the app's pool.
MAX_CONCURRENT_QUERIES: Final = 2
# When the server stops, streams have this long to send what is left.
STOP_TIMEOUT_S: Final = 3.0


class Hub:
    """Connects the listeners of one server with watchers. Without listeners it sends no queries."""

    def __init__(self, client_of: Callable[[str | None], Client]) -> None:
        self._client_of = client_of
        self._application_kinds: dict[str, ReadSnapshots] = {}
        self._watchers: dict[tuple[str | None, str], Watcher] = {}
        self._listeners: set[Mailbox] = set()
        self._query_slots = asyncio.Semaphore(MAX_CONCURRENT_QUERIES)
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_stopping = False

    @property
    def listeners(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    def add_kind(self, kind: str, read_snapshots: ReadSnapshots) -> None:
        """Let clients watch subjects of an application's kind."""
        self._application_kinds[kind] = read_snapshots

    def parse_subject(self, text: str) -> Subject:
        """Parse a subject. Raises a Problem if nothing of that kind can be watched."""
        return Subject.parse(text, self._application_kinds)

    async def read(self, tenant: str | None, subject: Subject) -> Present | None:
        """Return the present state of a subject, or None if it does not exist."""
        return (await self._fetch_of(tenant, subject.kind)([subject.id])).get(subject.id)

    def _fetch_of(self, tenant: str | None, kind: str) -> Fetch:
        if (read_snapshots := self._application_kinds.get(kind)) is not None:
            return partial(read_snapshots, tenant)
        return partial(self._client_of(tenant).present, cast(SubjectKind, kind))

    def enter(self) -> Mailbox:
        """Add a listener. Raises a Problem if there are too many, or the server is stopping."""
        if self._is_stopping:
            raise Problem(503, "stopping", "This server is stopping. Connect again.")
        if len(self._listeners) >= MAX_LISTENERS:
            detail = (
                f"This server already has {MAX_LISTENERS:,} connections that listen, the most "
                "that it allows. Try again later."
            )
            raise Problem(503, "too-many-listeners", detail)
        listener = Mailbox()
        self._listeners.add(listener)
        self._empty.clear()
        return listener

    def exit(self, listener: Mailbox) -> None:
        """Remove a listener that has left all its subjects."""
        self._listeners.discard(listener)
        if not self._listeners:
            self._empty.set()

    def join(self, listener: Mailbox, tenant: str | None, subject: Subject) -> None:
        """Let a listener watch a subject as `tenant` sees it; None stands for all tenants."""
        key = tenant, subject.kind
        if (watcher := self._watchers.get(key)) is None:
            self._watchers = {at: each for at, each in self._watchers.items() if not each.is_over}
            fetch = self._fetch_of(tenant, subject.kind)
            watcher = self._watchers[key] = Watcher(fetch, subject.kind, self._query_slots)
        watcher.join(listener, subject)

    def leave(self, listener: Mailbox, tenant: str | None, subject: Subject) -> None:
        if (watcher := self._watchers.get((tenant, subject.kind))) is not None:
            watcher.leave(listener, subject)
        listener.forget(subject)

    def ask_to_stop(self) -> None:
        """End every stream and refuse new ones, because the process is about to end."""
        self._is_stopping = True
        for listener in tuple(self._listeners):
            listener.end("stopping")

    def start(self) -> None:
        """Accept listeners. A hub that was stopped can be started again."""
        self._is_stopping = False

    async def stop(self) -> None:
        """End every stream, give the streams a moment to send what is left, and stop polling."""
        self.ask_to_stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._empty.wait()
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers.values():
            await watcher.stop()
