"""So many requests at once, and no more: what a server cannot do in time it does not begin."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.service.bounds import path_below
from penstock.service.crowd import Crowd
from penstock.service.problem import answer


class Turnstile:
    """Counts requests, and tells one too many to come again."""

    def __init__(self, app: ASGIApp, *, crowd: Crowd) -> None:
        self._app = app
        self._crowd = crowd
        self._refusal = answer(crowd.refusal())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not path_below(scope).startswith(self._crowd.prefix):
            await self._app(scope, receive, send)
        elif self._crowd.is_full:
            await self._refusal(scope, receive, send)
        else:
            await self._counted(scope, receive, send)

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
