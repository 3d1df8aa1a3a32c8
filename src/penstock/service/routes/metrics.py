"""`/metrics`, for Prometheus."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from penstock.service.caller import CALLER
from penstock.service.problem import documented
from penstock.service.wiring import admitted, wiring_of

router = APIRouter(tags=["operations"])

PAGE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Metrics as text.",
        "content": {
            kind: {"schema": {"type": "string"}}
            for kind in ("text/plain", "application/openmetrics-text")
        },
    }
}
# The encoder fails at versions that are not made of numbers.
VERSION: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}")
_reader = admitted("read", everywhere=True)


async def scraper(request: Request) -> None:
    """Who may read: a caller with the scope, or this machine where that was said to be open."""
    wiring = wiring_of(request)
    if wiring.operations.shows_metrics_to(request):
        return
    if CALLER not in request.scope:
        request.scope[CALLER] = await wiring.door.admit(request)
    await _reader(request)


@router.get(
    "/metrics",
    response_class=Response,
    responses={**PAGE, **documented(401, 403, 503)},
    dependencies=[Depends(scraper)],
)
async def metrics(request: Request) -> Response:
    """What Prometheus scrapes: of the queues, at most 5 seconds old, and of this process."""
    operations = wiring_of(request).operations
    await operations.queues.look()
    encode, kind = choose_encoder(_readable(request.headers.get("accept", "")))
    return Response(encode(operations.registry), headers={"content-type": kind})


def _readable(accept: str) -> str:
    """What a client accepts, without formats whose version nobody can read."""
    return ",".join(each for each in accept.split(",") if _has_version(each))


def _has_version(media_range: str) -> bool:
    """Whether the version of a format is readable, if it names one."""
    versions = [
        value.strip()
        for name, _, value in (part.partition("=") for part in media_range.split(";"))
        if name.strip() == "version"
    ]
    return all(VERSION.fullmatch(version) for version in versions)
