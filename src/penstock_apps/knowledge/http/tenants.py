"""The routes of tenants: their usage and their settings, which administrators change."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from penstock.service.dependencies import Admin
from penstock.service.problems import raises
from penstock.service.routing import as_json, returns
from penstock_apps.knowledge.http.answers import Deleted, TenantShown
from penstock_apps.knowledge.http.bodies import Named, TenantWish
from penstock_apps.knowledge.http.routing import KnowledgeRoute, Read, knowledge_runtime
from penstock_apps.knowledge.library import Library

router = APIRouter(prefix="/knowledge-tenant", tags=["knowledge"], route_class=KnowledgeRoute)

CHANGE: Final = raises(400, 401, 403, 408, 409, 413, 415, 422, 503)
GONE: Final = returns(Deleted, 202, "It is deleted and no longer found. A job removes its data.")
# These routes change a whole tenant, so its name is required and has no default.
Whose = Annotated[Named, Query(alias="tenant")]


@router.get("", responses={**returns(TenantShown), **raises(401, 403, 422, 503)})
async def get_tenant(library: Read) -> Response:
    """Return how much a tenant has, and its settings."""
    return as_json(await _read_tenant(library))


@router.patch("", responses={**returns(TenantShown), **CHANGE})
async def set_tenant(body: TenantWish, whose: Whose, request: Request, caller: Admin) -> Response:
    """Change the settings of a tenant: whether it is active, its quotas, how long files are kept.

    Fields that are left out stay as they are. With null, the installation's setting applies.
    """
    runtime = knowledge_runtime(request)
    settings: dict[str, Any] = body.model_dump(exclude_unset=True)
    active = settings.pop("active", None)
    if "quotas" in settings:
        settings["quotas"] = settings["quotas"] or {}
    async with runtime.tables.transaction(whose) as on:
        await runtime.tenants.set(on, whose, active, settings)
    return as_json(await _read_tenant(Library(runtime, whose)))


@router.delete("", responses={**GONE, **CHANGE})
async def delete_tenant(whose: Whose, request: Request, caller: Admin) -> Response:
    """Delete all knowledge of a tenant, and its settings."""
    await Library(knowledge_runtime(request), whose).delete_tenant()
    return as_json(Deleted(deleted=whose), 202)


async def _read_tenant(library: Library) -> TenantShown:
    async with library.transaction() as on:
        tenant = await library.runtime.tenants.get(on, library.tenant)
    return TenantShown.of(library.tenant, tenant)
