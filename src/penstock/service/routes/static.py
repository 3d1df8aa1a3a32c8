"""Files for browsers, which anybody may have."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

router = APIRouter(prefix="/static", include_in_schema=False)

LIVE: Final = "penstock-live.js"
# A page of any origin may import a module, and looks for a newer one after an hour.
_HEADERS: Final = {
    "cache-control": "public, max-age=3600",
    "access-control-allow-origin": "*",
    "cross-origin-resource-policy": "cross-origin",
    "x-content-type-options": "nosniff",
}


@router.get(f"/{LIVE}")
async def live_module(request: Request) -> Response:
    """The module that watches subjects from a page."""
    body, tag = _module()
    headers = {**_HEADERS, "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, "text/javascript")


@cache
def _module() -> tuple[bytes, str]:
    body = (files("penstock.service") / "static" / LIVE).read_bytes()
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
