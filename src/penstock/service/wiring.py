"""What routes are given: the app, as the caller may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from penstock.app import Penstock
from penstock.client import Client
from penstock.insights import Insights
from penstock.service.caller import Caller, Door
from penstock.service.live.hub import Hub
from penstock.service.live.tickets import Tickets
from penstock.service.problem import Problem
from penstock.service.readiness import Readiness
from penstock.service.scopes import Scope


class Wiring:
    """Who lets callers in, and what they get."""

    def __init__(self, app: Penstock, door: Door, *, ticket_secret: str | None = None) -> None:
        self.app = app
        self.door = door
        self.readiness = Readiness(app)
        # Set when the process is about to end: what is streamed ends too, for clients to go
        # elsewhere.
        self.stopping = asyncio.Event()
        self.hub = Hub(self.client_as)
        self.tickets = Tickets(ticket_secret)

    def client_of(self, caller: Caller) -> Client:
        """The app's calls, as the caller's tenant if it is bound to one."""
        return self.client_as(caller.tenant)

    def client_as(self, tenant: str | None) -> Client:
        """The app's calls, as a tenant or as none."""
        return self.app if tenant is None else self.app.for_tenant(tenant)

    async def insights(self) -> Insights:
        """The questions of those who look over all tenants."""
        return await self.app.insights()


def wiring_of(connection: HTTPConnection) -> Wiring:
    wiring: Wiring = connection.app.state.wiring
    return wiring


def allowed(scope: Scope, *, everywhere: bool = False) -> Any:
    """A parameter of a route: the caller, who has this scope; `everywhere`: is of no one tenant."""
    return Annotated[Caller, Depends(_admitted(scope, everywhere))]


def _admitted(scope: Scope, everywhere: bool) -> Callable[[Request], Awaitable[Caller]]:
    async def admitted(request: Request) -> Caller:
        caller = await wiring_of(request).door.admit(request)
        if scope not in caller.scopes:
            told = f"This needs the scope {scope!r}; {caller.name} has {_listed(caller)}."
            raise Problem(403, "not-allowed", told)
        if everywhere and caller.tenant is not None:
            told = f"This is about all tenants; {caller.name} is bound to {caller.tenant!r}."
            raise Problem(403, "not-allowed", told)
        return caller

    return admitted


def _listed(caller: Caller) -> str:
    return ", ".join(sorted(caller.scopes)) or "none"


Reader = allowed("read")
Enqueuer = allowed("enqueue")
Operator = allowed("operate")
Overseer = allowed("read", everywhere=True)
Keeper = allowed("operate", everywhere=True)
Admin = allowed("admin", everywhere=True)
