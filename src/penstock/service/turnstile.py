"""So many requests at once, and no more: what a server cannot do in time it does not begin."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.service.bounds import path_below
from penstock.service.gate import HEADERS
from penstock.service.problem import Problem, answer


class Turnstile:
    """Counts requests below `prefix` until they are answered; one too many is told to come again.

    Probes are outside of it: a server that is busy lives.
    """

    def __init__(self, app: ASGIApp, *, most: int, prefix: str) -> None:
        self._app = app
        self._most = most
        self._prefix = prefix
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not path_below(scope).startswith(self._prefix):
            await self._app(scope, receive, send)
        elif self._under_way >= self._most:
            told = f"{self._most:,} requests are being answered, and no more are begun."
            await answer(Problem(503, "busy", told, headers=HEADERS))(scope, receive, send)
        else:
            await self._counted(scope, receive, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._under_way += 1
        is_begun = False

        async def sending(message: Message) -> None:
            # What has begun to be answered counts no more: a stream may go on for hours.
            nonlocal is_begun
            if not is_begun:
                is_begun = True
                self._under_way -= 1
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            if not is_begun:
                self._under_way -= 1
