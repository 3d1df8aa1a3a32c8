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
from penstock.service.auth import AFRESH, CALLER, Authenticator, Caller, Logins
from penstock.service.enqueue import QueueNames
from penstock.service.group_commit import GroupCommit
from penstock.service.live.hub import Hub
from penstock.service.live.tickets import Tickets
from penstock.service.middleware import SAFE
from penstock.service.operations import Operations
from penstock.service.problems import Problem


class Wiring:
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


def wiring_of(connection: HTTPConnection) -> Wiring:
    wiring: Wiring = connection.app.state.wiring
    return wiring


def allowed(scope: Scope, *, everywhere: bool = False) -> Any:
    """A parameter of a route: the caller, who has this scope; `everywhere`: is of no one tenant."""
    return Annotated[Caller, Depends(admitted(scope, everywhere=everywhere))]


def admitted(scope: Scope, *, everywhere: bool = False) -> Callable[[Request], Awaitable[Caller]]:
    """What lets a caller through who has this scope."""

    async def admit(request: Request) -> Caller:
        caller: Caller = request.scope[CALLER]
        _expect_allowed(caller, scope, everywhere)
        if scope == "admin" and request.method not in SAFE:
            # With a key that is revoked but still remembered, one could make another.
            request.scope[AFRESH] = True
            caller = request.scope[CALLER] = await wiring_of(request).door.admit(request)
            _expect_allowed(caller, scope, everywhere)
        return caller

    return admit


async def let_in(request: Request, scope: Scope) -> None:
    """Let a caller of no one tenant through who has this scope, on a route that the gate leaves
    open."""
    request.scope[CALLER] = await wiring_of(request).door.admit(request)
    await admitted(scope, everywhere=True)(request)


def _expect_allowed(caller: Caller, scope: Scope, everywhere: bool) -> None:
    if scope not in caller.scopes:
        told = f"This needs the scope {scope!r}; {caller.name} has {_listed(caller)}."
        raise Problem(403, "not-allowed", told)
    if everywhere and caller.tenant is not None:
        told = f"This is about all tenants; {caller.name} is bound to {caller.tenant!r}."
        raise Problem(403, "not-allowed", told)


def _listed(caller: Caller) -> str:
    return ", ".join(sorted(caller.scopes)) or "none"


def _anyone(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


Anyone = Annotated[Caller, Depends(_anyone)]
Reader = allowed("read")
Enqueuer = allowed("enqueue")
Operator = allowed("operate")
Overseer = allowed("read", everywhere=True)
Keeper = allowed("operate", everywhere=True)
Admin = allowed("admin", everywhere=True)
