"""Follow a subject's states by server-sent events, reconnecting as often as needed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import httpx
import msgspec
from msgspec import Struct

from penstock.api.errors import error_of
from penstock.api.transport import PREFIX, RETRY_STATUSES, ApiRequest, ApiResponse, Transport, why
from penstock.errors import ServiceUnreachable
from penstock.groups.batches import BatchStatus
from penstock.groups.snapshots import JobNow, OwnerNow, SubjectKind
from penstock.insights import QueueInsight

SubjectState: TypeAlias = JobNow | BatchStatus | QueueInsight | OwnerNow
# The type of a subject's state, by kind.
STATE_TYPES: Final[dict[SubjectKind, type[SubjectState]]] = {
    "job": JobNow,
    "batch": BatchStatus,
    "queue": QueueInsight,
    "tenant": OwnerNow,
    "user": OwnerNow,
}


class New(Struct, frozen=True, omit_defaults=True):
    """A job to enqueue: the name of its task, its arguments, and options that the task accepts."""

    task: str
    args: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}


class Live(Struct, frozen=True, kw_only=True):
    """The whole state of a subject at one moment. A `final` state is the last one."""

    subject: str
    version: str | None
    final: bool
    state: SubjectState | None


class ServerSentEvent(Struct, frozen=True):
    """One server-sent event."""

    id: str
    data: str


class EventParser:
    """Parses lines into events. Keeps the last id, and how long to wait before reconnecting."""

    def __init__(self) -> None:
        self.last_id = ""
        self.retry = 1.0
        self._id = ""
        self._data: list[str] = []

    def feed(self, line: str) -> ServerSentEvent | None:
        """Parse a line. Returns an event if the line completes one, else None."""
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        elif name == "retry" and value.isdecimal():
            self.retry = int(value) / 1000
        return None

    def reset(self) -> None:
        """Drop an incomplete event after the connection was lost."""
        self._data = []

    def _complete(self) -> ServerSentEvent | None:
        if not self._data:
            return None
        data, self._data = "\n".join(self._data), []
        self.last_id = self._id
        return ServerSentEvent(self._id, data)


# The server sends something at least every 15 s.
READ_TIMEOUT_S: Final = 40.0
# After this time without any answer, raise ServiceUnreachable.
GIVE_UP_AFTER_S: Final = 60.0
NO_CONTENT: Final = 204


class _LiveBody(Struct, frozen=True):
    subject: str
    version: str | None
    final: bool
    state: msgspec.Raw


class Subscription:
    """Yields the states of one subject. After a lost connection it resumes after the last state."""

    def __init__(
        self, transport: Transport, kind: SubjectKind, id: str, timeout: float | None
    ) -> None:
        self._transport = transport
        self._path = f"{PREFIX}/live/{kind}/{quote(id, safe='')}"
        self._end = None if timeout is None else time.monotonic() + timeout
        self._last_answer_at = time.monotonic()
        self._parser = EventParser()

    async def states(self, kind: type[SubjectState]) -> AsyncGenerator[Live, None]:
        """Yield each new state, until a final state or the timeout."""
        while not self._is_over:
            try:
                async for event in self._connection():
                    if event is None:
                        return
                    yield (live := _parse(event, kind))
                    if live.final:
                        return
            except httpx.TransportError as error:
                if time.monotonic() - self._last_answer_at > GIVE_UP_AFTER_S:
                    raise ServiceUnreachable(why(error), is_sent=False) from error
            self._parser.reset()
            await self._transport.pause(min(self._parser.retry, self._remaining_s))

    async def _connection(self) -> AsyncGenerator[ServerSentEvent | None, None]:
        """Yield the events of one connection, or None if the final state has been seen."""
        lines = self._transport.lines(self._request())
        try:
            async for line in lines:
                if isinstance(line, ApiResponse):
                    if line.status == NO_CONTENT:
                        yield None
                    elif line.status in RETRY_STATUSES:
                        return
                    elif line.status != 200:
                        raise error_of(line.status, line.body)
                    self._last_answer_at = time.monotonic()
                elif (event := self._parser.feed(line)) is not None:
                    yield event
                if self._is_over:
                    return
        finally:
            await lines.aclose()

    def _request(self) -> ApiRequest:
        headers = {"accept": "text/event-stream"}
        if self._parser.last_id:
            headers["last-event-id"] = self._parser.last_id
        return ApiRequest(
            "GET", self._path, headers=headers, wait=min(READ_TIMEOUT_S, self._remaining_s + 0.01)
        )

    @property
    def _remaining_s(self) -> float:
        return READ_TIMEOUT_S if self._end is None else max(self._end - time.monotonic(), 0.0)

    @property
    def _is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


def _parse(event: ServerSentEvent, kind: type[SubjectState]) -> Live:
    body = msgspec.json.decode(event.data, type=_LiveBody)
    state: Any = msgspec.json.decode(body.state, type=kind | None)
    return Live(subject=body.subject, version=body.version, final=body.final, state=state)
