"""One question to the API: asked again where that is safe, its answer read, its problem raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import httpx
import msgspec

from penstock.api.problems import error_of, problem_of
from penstock.api.wire import Answer, Request, Wire
from penstock.errors import ServiceUnreachable

T = TypeVar("T")

PREFIX: Final = "/api/v1"
TRIES: Final = 4
FIRST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 30.0
AGAIN: Final = frozenset({429, 502, 503, 504})
# So a server says that it has not begun: whatever was asked may be asked again.
NOT_BEGUN: Final = frozenset({"busy", "too-many-requests", "not-ready"})


class Asking:
    """Asks a service over a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def ask(
        self,
        /,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: Any = None,
        safe: bool | None = None,
        **query: Any,
    ) -> T:
        """Any route of the API by its path below `/api/v1`; `kind` is what the answer holds.

        `safe` says that asking twice does no harm; a GET is.
        """
        encoded = None if body is None else msgspec.json.encode(body)
        request = Request(method, PREFIX + path, query, encoded)
        answer = await self._answered(request, method == "GET" if safe is None else safe)
        if answer.status >= 400:
            raise error_of(answer.status, answer.body)
        return msgspec.json.decode(answer.body or b"null", type=kind)

    async def _answered(self, request: Request, is_safe: bool) -> Answer:
        pauses = _growing()
        for tries in range(1, TRIES + 1):
            pause = next(pauses)
            try:
                answer = await self._wire.ask(request)
            except httpx.TransportError as error:
                is_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if tries == TRIES or (is_sent and not is_safe):
                    raise ServiceUnreachable(why(error), is_sent=is_sent) from error
            else:
                if tries == TRIES or not _may_ask_again(answer, is_safe):
                    return answer
                pause = max(pause, _told_to_wait(answer))
            await self._wire.pause(min(pause, LONGEST_PAUSE))
        raise AssertionError("unreachable")


def why(error: httpx.TransportError) -> str:
    """The message of an error, or its class: most timeouts have no message."""
    return str(error) or type(error).__name__


def _may_ask_again(answer: Answer, is_safe: bool) -> bool:
    if answer.status not in AGAIN:
        return False
    return is_safe or problem_of(answer.body).kind in NOT_BEGUN


def _told_to_wait(answer: Answer) -> float:
    told = answer.headers.get("retry-after", "")
    return float(told) if told.isdecimal() else 0.0


def _growing() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause *= 2
