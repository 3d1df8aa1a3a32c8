"""What routes are given: the app, as the caller may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from penstock.app.app import Penstock
from penstock.app.client import Client
from penstock.groups.keys import Scope
from penstock.insights import Insights
from penstock.service.auth import BYPASS_CACHE, CALLER, Authenticator, Caller, Logins
from penstock.service.enqueue import QueueNames
from penstock.service.group_commit import GroupCommit
from penstock.service.live.hub import Hub
from penstock.service.live.tickets import Tickets
from penstock.service.middleware import SAFE_METHODS
from penstock.service.operations import Operations
from penstock.service.problems import Problem


class ServiceRuntime:
    """Who lets callers in, and what they get."""

    def __init__(
        self,
        app: Penstock,
        door: Authenticator,
        operations: Operations,
        *,
        logins: Logins,
        queue_names: QueueNames,
        ticket_secret: str | None = None,
    ) -> None:
        self.app = app
        self.logins = logins
        self.queue_names = queue_names
        self.door = door
        self.operations = operations
        self.inlet = GroupCommit(self.client_as)
        # Set when the process is about to end: what is streamed ends too, for clients to go
        # elsewhere.
        self.stopping = asyncio.Event()
        self.hub = Hub(self.client_as)
        self.tickets = Tickets(ticket_secret)
        # What the routes of applications need, by their names, while the service is open.
        self.applications: dict[str, Any] = {}

    def client_of(self, caller: Caller) -> Client:
        """The app's calls for the caller, who is named in the audit for what they change."""
        return self.client_as(caller.tenant, caller.name)

    def client_as(self, tenant: str | None, by: str | None = None) -> Client:
        """The app's calls, as a tenant or as none.

        As a tenant they are asked as the role of apps: row level security holds for them.
        """
        client = self.app if by is None else self.app.acting(by)
        return client if tenant is None else client.for_tenant(tenant, confined=True)

    async def insights(self) -> Insights:
        """The questions of those who look over all tenants."""
        return await self.app.insights()


def runtime_of(connection: HTTPConnection) -> ServiceRuntime:
    wiring: ServiceRuntime = connection.app.state.wiring
    return wiring


def requires(scope: Scope, *, everywhere: bool = False) -> Any:
    """A parameter of a route: the caller, who has this scope; `everywhere`: is of no one tenant."""
    return Annotated[Caller, Depends(caller_with(scope, everywhere=everywhere))]


def caller_with(
    scope: Scope, *, everywhere: bool = False
) -> Callable[[Request], Awaitable[Caller]]:
    """What lets a caller through who has this scope."""

    async def admit(request: Request) -> Caller:
        caller: Caller = request.scope[CALLER]
        _check_scope(caller, scope, everywhere)
        if scope == "admin" and request.method not in SAFE_METHODS:
            # With a key that is revoked but still remembered, one could make another.
            request.scope[BYPASS_CACHE] = True
            caller = request.scope[CALLER] = await runtime_of(request).door.admit(request)
            _check_scope(caller, scope, everywhere)
        return caller

    return admit


async def authorize(request: Request, scope: Scope) -> None:
    """Let a caller of no one tenant through who has this scope, on a route that the gate leaves
    open."""
    request.scope[CALLER] = await runtime_of(request).door.admit(request)
    await caller_with(scope, everywhere=True)(request)


def _check_scope(caller: Caller, scope: Scope, everywhere: bool) -> None:
    if scope not in caller.scopes:
        told = f"This needs the scope {scope!r}; {caller.name} has {_scope_list(caller)}."
        raise Problem(403, "not-allowed", told)
    if everywhere and caller.tenant is not None:
        told = f"This is about all tenants; {caller.name} is bound to {caller.tenant!r}."
        raise Problem(403, "not-allowed", told)


def _scope_list(caller: Caller) -> str:
    return ", ".join(sorted(caller.scopes)) or "none"


def _any_caller(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


AnyCaller = Annotated[Caller, Depends(_any_caller)]
Reader = requires("read")
Enqueuer = requires("enqueue")
Operator = requires("operate")
GlobalReader = requires("read", everywhere=True)
GlobalOperator = requires("operate", everywhere=True)
Admin = requires("admin", everywhere=True)
