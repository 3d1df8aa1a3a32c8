"""The HTTP API of knowledge."""

from __future__ import annotations

from fastapi import APIRouter

from penstock_apps.knowledge.http import bases, documents, search, sources, tenants, uploads

ROUTERS = (
    uploads.router,
    sources.router_progress,
    bases.router,
    sources.router_sources,
    documents.router,
    search.router,
    tenants.router,
)


def router() -> APIRouter:
    """Return the routes, for the service to include."""
    router = APIRouter()
    for each in ROUTERS:
        router.routes.extend(each.routes)
    return router
