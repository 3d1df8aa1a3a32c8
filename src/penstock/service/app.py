"""Assemble the service: an ASGI app with routes, middleware, live updates and applications."""

from __future__ import annotations

import inspect
from contextlib import AsyncExitStack
from functools import cache
from itertools import chain
from types import TracebackType
from typing import Any, Final, Self

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from penstock.app.app import Penstock
from penstock.insights import Thresholds
from penstock.service import problems, routing
from penstock.service.auth import Authenticator, DefaultAuthenticator, Logins
from penstock.service.dependencies import ServiceRuntime
from penstock.service.enqueue import QueueNames
from penstock.service.hosts import Entry
from penstock.service.middleware import BodyLimiter, Bounds, RequestCount, RequestLimiter, Security
from penstock.service.operations import Operations
from penstock.service.routes import (
    audit,
    batches,
    bulk,
    events,
    failed,
    health,
    jobs,
    keys,
    limits,
    live,
    login,
    metrics,
    probes,
    queues,
    schedules,
    static,
    users,
    workers,
    workflows,
)
from penstock.service.routing import RouteFlags

PREFIX: Final = "/api/v1"
ROUTE_MODULES: Final = (
    jobs,
    bulk,
    batches,
    workflows,
    failed,
    schedules,
    queues,
    limits,
    workers,
    events,
    live,
    health,
    login,
    keys,
    users,
    audit,
)


@cache
def _routes() -> list[BaseRoute]:
    """Return the routes that every service has, without those of applications.

    FastAPI takes a tenth of a second to analyse them, so all services share the result.
    """
    router = APIRouter()
    for module in ROUTE_MODULES:
        router.include_router(module.router, prefix=PREFIX)
    for module in (probes, metrics, static):
        router.include_router(module.router)
    return router.routes


class Service:
    """An app's HTTP API. You can mount it under any prefix of another ASGI app.

    Every caller must authenticate with a key or a login, unless you pass your own authenticator
    as `door`. `entry` holds the host names that the service answers to. By default these are the
    names in PENSTOCK_HOSTS, or else those of loopback, such as `localhost`.

    service = Service(app)
    web.mount("/queue", service.asgi)

    async with service:      # in your own app's lifespan: a mounted app's lifespan does not run
        ...
    """

    def __init__(
        self,
        app: Penstock,
        *,
        door: Authenticator | None = None,
        entry: Entry | None = None,
        bounds: Bounds | None = None,
        thresholds: Thresholds | None = None,
        open_metrics: bool = False,
        ticket_secret: str | None = None,
    ) -> None:
        self._app = app
        self._stack = AsyncExitStack()
        entry, bounds = entry or Entry.of(), bounds or Bounds()
        logins = Logins(app, entry)
        authenticator = door or DefaultAuthenticator(app, entry, logins)
        self._operations = Operations(app, entry, thresholds=thresholds, open_metrics=open_metrics)
        self.asgi = FastAPI(
            title="Penstock",
            docs_url=None,
            redoc_url=None,
            openapi_url=f"{PREFIX}/openapi.json",
            redirect_slashes=False,
            routes=_routes(),
        )
        self.asgi.state.runtime = ServiceRuntime(
            app, authenticator, self._operations, logins=logins, ticket_secret=ticket_secret,
            queue_names=QueueNames(app.tasks, bounds.queues),
        )  # fmt: skip
        self.asgi.openapi = self._openapi  # type: ignore[method-assign]
        problems.install_error_handlers(self.asgi)
        installed = [application.router() for application in app.applications]
        for router in installed:
            self.asgi.include_router(router, prefix=PREFIX)
        routers = [*(module.router for module in ROUTE_MODULES), *installed]
        flags = RouteFlags(chain.from_iterable(router.routes for router in routers), PREFIX)
        self.request_count = RequestCount(
            bounds.requests, bounds.openings, PREFIX, flags.streams_events
        )
        self.asgi.add_middleware(BodyLimiter, bounds=bounds, prefix=PREFIX, flags=flags)
        self.asgi.add_middleware(Security, authenticator=authenticator, entry=entry, flags=flags)
        self.asgi.add_middleware(RequestLimiter, request_count=self.request_count, entry=entry)

    def ask_to_stop(self) -> None:
        """Prepare to stop: report that the service is not ready, and end all streams."""
        self.asgi.state.runtime.stopping.set()
        self.asgi.state.runtime.hub.ask_to_stop()

    def _openapi(self) -> dict[str, Any]:
        """Return FastAPI's OpenAPI document, and add the response schemas that FastAPI lacks."""
        if self.asgi.openapi_schema is None:
            document = get_openapi(title="Penstock", version="1", routes=self.asgi.routes)
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas |= routing.component_schemas()
            problems.document_common_problems(document)
            for schema in document["components"]["schemas"].values():
                if "description" in schema:
                    # A docstring's lines are indented, up to Python 3.12.
                    schema["description"] = inspect.cleandoc(schema["description"])
            self.asgi.openapi_schema = document
        return self.asgi.openapi_schema

    async def __aenter__(self) -> Self:
        await self._app.open()
        async with AsyncExitStack() as stack:
            for application in self._app.applications:
                opened = await stack.enter_async_context(application.serving())
                self.asgi.state.runtime.applications[application.name] = opened
                for kind, read_snapshots in application.subjects(opened).items():
                    self.asgi.state.runtime.hub.add_kind(kind, read_snapshots)
            self._stack = stack.pop_all()
        self.asgi.state.runtime.hub.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._operations.close()
        await self.asgi.state.runtime.hub.stop()
        await self.asgi.state.runtime.group_commit.wait_until_empty()
        await self._stack.aclose()
        await self._app.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.asgi(scope, receive, send)
