"""Static files for browsers, which need no key or login."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

router = APIRouter(include_in_schema=False)

LIVE: Final = "penstock-live.js"
RAPIDOC: Final = "vendor/rapidoc-9.3.8.min.js"
# Pages of any origin may import the module. Browsers check for a newer one after an hour.
_HEADERS: Final = {
    "cache-control": "public, max-age=3600",
    "access-control-allow-origin": "*",
    "cross-origin-resource-policy": "cross-origin",
    "x-content-type-options": "nosniff",
}


# RapiDoc needs inline styles. The policy keeps it from fetching anything from elsewhere.
_DOCS_HEADERS: Final = {
    "cache-control": "no-cache",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


@router.get(f"/static/{LIVE}")
async def live_module(request: Request) -> Response:
    """Return the JavaScript module with which pages watch subjects."""
    return _file(request, LIVE, "text/javascript", _HEADERS)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Show the OpenAPI document as a page, which fetches the document with a key or a login."""
    return _file(request, "docs.html", "text/html", _DOCS_HEADERS)


@router.get("/static/docs.js")
async def docs_module(request: Request) -> Response:
    return _file(request, "docs.js", "text/javascript", {"cache-control": "no-cache"})


@router.get("/static/rapidoc.js")
async def rapidoc(request: Request) -> Response:
    """Return RapiDoc as its authors built it. Its licence is in the same folder."""
    return _file(request, RAPIDOC, "text/javascript", {"cache-control": "no-cache"})


def _file(request: Request, name: str, kind: str, headers: dict[str, str]) -> Response:
    body, tag = _read(name)
    headers = {**headers, "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, kind)


@cache
def _read(name: str) -> tuple[bytes, str]:
    body = (files("penstock.service") / "static" / name).read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
