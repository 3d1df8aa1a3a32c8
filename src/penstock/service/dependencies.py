"""Give routes what they depend on: the service's runtime, and a caller with a certain scope."""

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
    """The parts of one service that its routes use."""

    def __init__(
        self,
        app: Penstock,
        authenticator: Authenticator,
        operations: Operations,
        *,
        logins: Logins,
        queue_names: QueueNames,
        ticket_secret: str | None = None,
    ) -> None:
        self.app = app
        self.logins = logins
        self.queue_names = queue_names
        self.authenticator = authenticator
        self.operations = operations
        self.group_commit = GroupCommit(self.client_as)
        # Set when the process is about to stop. Streams then end, and their clients connect to
        # another server.
        self.stopping = asyncio.Event()
        self.hub = Hub(self.client_as)
        self.tickets = Tickets(ticket_secret)
        # What `Application.serving` returned, by application, while the service is open.
        self.applications: dict[str, Any] = {}

    def client_of(self, caller: Caller) -> Client:
        """Return a client that acts as the caller, whose name the audit records for each change."""
        return self.client_as(caller.tenant, caller.name)

    def client_as(self, tenant: str | None, by: str | None = None) -> Client:
        """Return a client for one tenant, or for all tenants if `tenant` is None.

        The client of a tenant takes the role of apps, so that row level security applies to it.
        """
        client = self.app if by is None else self.app.acting(by)
        return client if tenant is None else client.for_tenant(tenant, confined=True)

    async def insights(self) -> Insights:
        """Return insights into the jobs of all tenants."""
        return await self.app.insights()


def runtime_of(connection: HTTPConnection) -> ServiceRuntime:
    runtime: ServiceRuntime = connection.app.state.runtime
    return runtime


def requires(scope: Scope, *, everywhere: bool = False) -> Any:
    """Return the annotation of a route's parameter for the caller, who must have this scope.

    With `everywhere` the caller must not be bound to a tenant.
    """
    return Annotated[Caller, Depends(caller_with(scope, everywhere=everywhere))]


def caller_with(
    scope: Scope, *, everywhere: bool = False
) -> Callable[[Request], Awaitable[Caller]]:
    """Return a dependency that refuses callers without this scope."""

    async def admit(request: Request) -> Caller:
        caller: Caller = request.scope[CALLER]
        _check_scope(caller, scope, everywhere)
        if scope == "admin" and request.method not in SAFE_METHODS:
            # Else a revoked key that is still in the cache could make a new key.
            request.scope[BYPASS_CACHE] = True
            caller = request.scope[CALLER] = await runtime_of(request).authenticator.admit(request)
            _check_scope(caller, scope, everywhere)
        return caller

    return admit


async def authorize(request: Request, scope: Scope) -> None:
    """Authenticate the caller of a public route, and check the scope.

    The caller must not be bound to a tenant.
    """
    request.scope[CALLER] = await runtime_of(request).authenticator.admit(request)
    await caller_with(scope, everywhere=True)(request)


def _check_scope(caller: Caller, scope: Scope, everywhere: bool) -> None:
    if scope not in caller.scopes:
        detail = f"This needs the scope {scope!r}; {caller.name} has {_scope_list(caller)}."
        raise Problem(403, "not-allowed", detail)
    if everywhere and caller.tenant is not None:
        detail = f"This route is for all tenants, but {caller.name} is bound to {caller.tenant!r}."
        raise Problem(403, "not-allowed", detail)


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
