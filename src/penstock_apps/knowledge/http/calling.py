"""Who asks, and whose knowledge that one gets."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.requests import HTTPConnection

from penstock.service.auth import Caller, requester
from penstock.service.dependencies import Enqueuer, Operator, Reader, runtime_of
from penstock.service.problems import Problem
from penstock_apps.knowledge.http.bodies import PLAIN
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.runtime import KnowledgeRuntime
from penstock_apps.knowledge.settings import ALONE

Tenant = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        description="Whose knowledge; a key that is bound to a tenant need not say it.",
    ),
]

Person = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        description="The person who asks, for a key with the scope `on_behalf`.",
    ),
]


def workshop_of(connection: HTTPConnection) -> KnowledgeRuntime:
    """What the service has opened for us."""
    runtime: KnowledgeRuntime = runtime_of(connection).applications["knowledge"]
    return runtime


def library_of(
    connection: HTTPConnection, caller: Caller, tenant: str | None, person: str | None = None
) -> Library:
    """The knowledge of the caller's tenant, or of the one that an unbound caller names.

    It is used for the caller, or for the person whom a trusted key names.
    """
    runtime = workshop_of(connection)
    if caller.tenant is None:
        return Library(runtime, tenant or ALONE, requested_by=requester(caller, person))
    if tenant not in (None, caller.tenant):
        told = f"{caller.name} is bound to another tenant than {tenant!r}."
        raise Problem(403, "not-allowed", told)
    asked = requester(caller, person)
    return Library(runtime, caller.tenant, confined=True, requested_by=asked)


async def _to_read(request: Request, caller: Reader, tenant: Tenant = None) -> Library:
    return library_of(request, caller, tenant)


async def _to_add(
    request: Request, caller: Enqueuer, tenant: Tenant = None, requested_by: Person = None
) -> Library:
    return library_of(request, caller, tenant, requested_by)


async def _to_change(
    request: Request, caller: Operator, tenant: Tenant = None, requested_by: Person = None
) -> Library:
    return library_of(request, caller, tenant, requested_by)


Read = Annotated[Library, Depends(_to_read)]
Add = Annotated[Library, Depends(_to_add)]
Change = Annotated[Library, Depends(_to_change)]
