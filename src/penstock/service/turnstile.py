"""So many requests at once, and no more: what a server cannot do in time it does not begin."""

from __future__ import annotations

from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.service.bounds import path_below
from penstock.service.crowd import NO_ROOM, Crowd, come_back
from penstock.service.entry import Entry
from penstock.service.gate import Sealed, is_preflight
from penstock.service.problem import answer

# The server is full, stops, or has no database: a stream may be opened later.
UNAVAILABLE = 503


class Turnstile:
    """Counts requests, and tells one too many to come again."""

    def __init__(self, app: ASGIApp, *, crowd: Crowd, entry: Entry) -> None:
        self._app = app
        self._entry = entry
        self._crowd = crowd
        self._refusal = answer(crowd.refusal())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        no_room = scope.get(NO_ROOM)
        if scope["type"] != "http" or not (
            no_room or path_below(scope).startswith(self._crowd.prefix)
        ):
            await self._app(scope, receive, send)
        elif is_preflight(HTTPConnection(scope)):
            # A preflight needs no database, and lets a page read that the server is full.
            await self._app(scope, receive, send)
        elif self._crowd.opens_stream(scope["method"], path_below(scope), scope["headers"]):
            await self._opened(scope, receive, send)
        elif no_room:
            await answer(no_room)(scope, receive, self._sealed(scope, send))
        elif self._crowd.is_full:
            await self._refusal(scope, receive, self._sealed(scope, send))
        else:
            await self._counted(scope, receive, send)

    def _sealed(self, scope: Scope, send: Send) -> Sealed:
        """Add the headers that let pages of other origins read the turnstile's own answers."""
        return Sealed(HTTPConnection(scope), self._entry, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._crowd.under_way += 1
        is_begun = False

        async def sending(message: Message) -> None:
            # What has begun to be answered counts no more: a stream may go on for hours.
            nonlocal is_begun
            if not is_begun:
                is_begun = True
                self._crowd.under_way -= 1
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            if not is_begun:
                self._crowd.under_way -= 1

    async def _opened(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a stream; one that cannot be opened now is an empty one, to be asked for again."""
        # Who has a ticket needs no login of the browser's: any page may read the answer.
        has_ticket = bool(QueryParams(scope["query_string"]).get("ticket"))
        empty, sealed = come_back(is_for_any_page=has_ticket), self._sealed(scope, send)
        if self._crowd.is_full_of_openings or NO_ROOM in scope:
            await empty(scope, receive, sealed)
            return
        self._crowd.openings += 1
        is_begun = is_refused = False

        async def sending(message: Message) -> None:
            nonlocal is_begun, is_refused
            if not is_begun:
                is_begun = True
                self._crowd.openings -= 1
                is_refused = message["status"] == UNAVAILABLE
                if is_refused:
                    await empty(scope, receive, sealed)
            if not is_refused:
                await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            if not is_begun:
                self._crowd.openings -= 1
