"""Who asks, and whose knowledge that one gets."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.requests import HTTPConnection

from penstock.service.caller import Caller
from penstock.service.problem import Problem
from penstock.service.wiring import Enqueuer, Operator, Reader, wiring_of
from penstock_apps.knowledge.http.wishes import PLAIN
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.settings import ALONE
from penstock_apps.knowledge.workshop import Workshop

Tenant = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        pattern=PLAIN,
        description="Whose knowledge; a key that is bound to a tenant need not say it.",
    ),
]


def workshop_of(connection: HTTPConnection) -> Workshop:
    """What the service has opened for us."""
    shop: Workshop = wiring_of(connection).applications["knowledge"]
    return shop


def library_of(connection: HTTPConnection, caller: Caller, tenant: str | None) -> Library:
    """The knowledge of the caller's tenant, or of the one that an unbound caller names."""
    shop = workshop_of(connection)
    if caller.tenant is None:
        return Library(shop, tenant or ALONE)
    if tenant not in (None, caller.tenant):
        told = f"{caller.name} is bound to another tenant than {tenant!r}."
        raise Problem(403, "not-allowed", told)
    return Library(shop, caller.tenant, confined=True)


async def _to_read(request: Request, caller: Reader, tenant: Tenant = None) -> Library:
    return library_of(request, caller, tenant)


async def _to_add(request: Request, caller: Enqueuer, tenant: Tenant = None) -> Library:
    return library_of(request, caller, tenant)


async def _to_change(request: Request, caller: Operator, tenant: Tenant = None) -> Library:
    return library_of(request, caller, tenant)


Read = Annotated[Library, Depends(_to_read)]
Add = Annotated[Library, Depends(_to_add)]
Change = Annotated[Library, Depends(_to_change)]
