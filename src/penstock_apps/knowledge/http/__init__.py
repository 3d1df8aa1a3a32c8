"""Knowledge over HTTP."""

from __future__ import annotations

from fastapi import APIRouter


def router() -> APIRouter:
    """The routes, for the service to include."""
    return APIRouter()
