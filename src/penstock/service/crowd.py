"""How many requests are being answered, and whether there is room for one more."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from starlette.responses import Response

from penstock.service.gate import HEADERS
from penstock.service.live.sse import COMING_BACK
from penstock.service.problem import Problem
from penstock.service.ways import Ways

EVENTS: Final = "text/event-stream"
# In the scope of a request on a connection too many: the Problem that is its answer.
NO_ROOM: Final = "penstock.no_room"


class Crowd:
    """Requests below `prefix`, until they begin to be answered. Probes are not among them: a server
    that is busy lives. Streams that are being opened are counted apart: a page that opens many
    keeps nobody from enqueueing.
    """

    def __init__(self, most: int, most_openings: int, prefix: str, streams: Ways) -> None:
        """`streams` are the routes that answer with server-sent events."""
        self._streams = streams
        self.most = most
        self.most_openings = most_openings
        self.prefix = prefix
        self.under_way = 0
        self.openings = 0

    @property
    def is_full(self) -> bool:
        return self.under_way >= self.most

    @property
    def is_full_of_openings(self) -> bool:
        return self.openings >= self.most_openings

    def opens_stream(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request asks for events, as an `EventSource` does, of a route that has them.

        The names of the headers must be in lower case.
        """
        return (
            method == "GET"
            and any(EVENTS.encode() in value for name, value in headers if name == b"accept")
            and self._streams.lead(method, path)
        )

    def refusal(self) -> Problem:
        """What one too many is told."""
        told = f"{self.most:,} requests are being answered, and no more are begun."
        return Problem(503, "busy", told, headers=dict(HEADERS))


def come_back(*, is_for_any_page: bool) -> Response:
    """The answer to a stream that cannot be opened now: an empty one.

    After any other status an `EventSource` never asks again. It has to be told when to: not all of
    them in one moment.
    """
    headers = dict(HEADERS) | {"x-accel-buffering": "no"}
    if is_for_any_page:
        headers["access-control-allow-origin"] = "*"
    body = f"retry: {random.randint(*COMING_BACK)}\n\n"
    return Response(body, 200, headers, EVENTS)
