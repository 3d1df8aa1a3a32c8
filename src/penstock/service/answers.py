"""Answers as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

_encoder = msgspec.json.Encoder()


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as a JSON response."""
    return Response(_encoder.encode(value), status, headers, "application/json")
