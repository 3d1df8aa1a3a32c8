"""Knowledge over HTTP."""

from __future__ import annotations

from fastapi import APIRouter

from penstock_apps.knowledge.http import bases, documents, search, sources, tenants, uploads
from penstock_apps.knowledge.http import sources as http_sources

RESOURCES = (uploads, http_sources, bases, sources, documents, search, tenants)


def router() -> APIRouter:
    """The routes, for the service to include."""
    made = APIRouter()
    for module in RESOURCES:
        made.routes.extend(module.router.routes)
    return made
