"""The service put together: one ASGI app, and what runs beside it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, Self

from fastapi import FastAPI

from penstock.app import Penstock
from penstock.service import problem
from penstock.service.caller import Door
from penstock.service.routes import jobs
from penstock.service.wiring import Wiring

PREFIX: Final = "/api/v1"


class Service:
    """An app's HTTP API, mountable under any prefix of another ASGI app.

    service = Service(app)
    web.mount("/queue", service.asgi)

    async with service:      # in the host's lifespan: a mounted app's own does not run
        ...
    """

    def __init__(self, app: Penstock, *, door: Door) -> None:
        self._app = app
        self.asgi = FastAPI(
            title="Penstock",
            docs_url=None,
            redoc_url=None,
            openapi_url=f"{PREFIX}/openapi.json",
        )
        self.asgi.state.wiring = Wiring(app, door)
        problem.install(self.asgi)
        for module in (jobs,):
            self.asgi.include_router(module.router, prefix=PREFIX)

    async def __aenter__(self) -> Self:
        await self._app.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._app.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.asgi(scope, receive, send)
