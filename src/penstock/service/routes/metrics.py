"""The route `/metrics` for Prometheus."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import APIRouter, Request
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from penstock.errors import DatabaseLost
from penstock.service.dependencies import authorize, runtime_of
from penstock.service.problems import raises

router = APIRouter(tags=["operations"])

METRICS_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The metrics as text.",
        "content": {
            kind: {"schema": {"type": "string"}}
            for kind in ("text/plain", "application/openmetrics-text")
        },
    }
}
DOWN_RESPONSE: Final[dict[str, Any]] = {
    "description": (
        "The database does not answer. The body is `penstock_database_up 0` and nothing else."
    ),
    "content": {**METRICS_RESPONSE[200]["content"], **raises(503)[503]["content"]},
}
# The encoder fails for versions that are not numbers.
VERSION_PATTERN: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}")


@router.get(
    "/metrics",
    response_class=Response,
    responses={**METRICS_RESPONSE, **raises(401, 403), 503: DOWN_RESPONSE},
)
async def metrics(request: Request) -> Response:
    """Return the metrics of the queues and of this process, for Prometheus.

    The metrics of the queues are at most 5 seconds old. While the database does not answer, keys
    cannot be checked: every caller then gets a 503 with `penstock_database_up 0` only.
    """
    operations = runtime_of(request).operations
    encode, kind = choose_encoder(_supported_formats(request.headers.get("accept", "")))
    if await _refresh(request):
        return Response(encode(operations.registry), headers={"content-type": kind})
    headers = {"content-type": kind, "retry-after": "1"}
    return Response(encode(operations.down_registry), 503, headers)


async def _refresh(request: Request) -> bool:
    """Check that the caller may read the metrics, and refresh the metrics of the queues.

    A caller needs the scope `read`, unless the metrics are open and the caller is on this
    machine. Returns False if the database does not answer.
    """
    operations = runtime_of(request).operations
    if not await operations.readiness.database_answers():
        return False
    try:
        if not operations.shows_metrics_to(request):
            await authorize(request, "read")
    except DatabaseLost:
        return False
    return await operations.queues.refresh()


def _supported_formats(accept: str) -> str:
    """Return an Accept header without the formats whose version the encoder cannot read."""
    return ",".join(each for each in accept.split(",") if _has_valid_version(each))


def _has_valid_version(media_range: str) -> bool:
    """Return whether a format has no version or a valid one."""
    versions = [
        value.strip()
        for name, _, value in (part.partition("=") for part in media_range.split(";"))
        if name.strip() == "version"
    ]
    return all(VERSION_PATTERN.fullmatch(version) for version in versions)
