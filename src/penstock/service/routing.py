"""Describe the JSON responses of routes for OpenAPI, and mark routes that need special handling."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, compile_path

_encoder = msgspec.json.Encoder()


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Encode a value as a JSON response."""
    return Response(_encoder.encode(value), status, headers, "application/json")


SCHEMA_REF: Final = "#/components/schemas/{name}"
_response_types: Final[dict[str, Any]] = {}


def returns(
    kind: Any, status: int = 200, description: str = "Done."
) -> dict[int | str, dict[str, Any]]:
    """Describe a route's successful response. `kind` is a Struct, or a type made of Structs."""
    _response_types.setdefault(repr(kind), kind)
    [schema], _ = msgspec.json.schema_components([kind], ref_template=SCHEMA_REF)
    content = {"application/json": {"schema": schema}}
    return {status: {"description": description, "content": content}}


def component_schemas() -> dict[str, Any]:
    """Return the OpenAPI schemas of all types that routes return."""
    _, schemas = msgspec.json.schema_components(_response_types.values(), ref_template=SCHEMA_REF)
    return schemas


F = TypeVar("F", bound=Callable[..., Any])

# Each marks the function of a route, as an attribute that is true.
_STREAMS_BODY: Final = "penstock_streams_body"
_PUBLIC: Final = "penstock_public"
_IDEMPOTENT: Final = "penstock_idempotent"
_STREAMS_EVENTS: Final = "penstock_streams_events"
_SMALL_BODY: Final = "penstock_small_body"


def streams_body(endpoint: F) -> F:
    """Mark a route that reads the body while it arrives, and limits the body's size itself."""
    setattr(endpoint, _STREAMS_BODY, True)
    return endpoint


def public(endpoint: F) -> F:
    """Mark a route that needs no key or login. It checks its callers itself."""
    setattr(endpoint, _PUBLIC, True)
    return endpoint


def idempotent(endpoint: F) -> F:
    """Mark a route that supports the header `Idempotency-Key`."""
    setattr(endpoint, _IDEMPOTENT, True)
    return endpoint


def small_body(endpoint: F) -> F:
    """Mark a route whose body has a few short fields, and which accepts only small bodies."""
    setattr(endpoint, _SMALL_BODY, True)
    return endpoint


def streams_events(endpoint: F) -> F:
    """Mark a route that answers with a stream of events if the request asks for one."""
    setattr(endpoint, _STREAMS_EVENTS, True)
    return endpoint


class RouteMatcher:
    """Matches requests to the routes with one flag, by method and path."""

    def __init__(self, routes: Iterable[Route], prefix: str, flag: str) -> None:
        self._routes = [
            (route.methods or set(), compile_path(prefix + route.path)[0])
            for route in routes
            if hasattr(route.endpoint, flag)
        ]

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request is for one of these routes."""
        return any(method in methods and pattern.match(path) for methods, pattern in self._routes)


class RouteFlags:
    """Tells the middleware which routes below a prefix have which flags."""

    def __init__(self, routes: Iterable[BaseRoute], prefix: str) -> None:
        plain = [route for route in routes if isinstance(route, Route)]
        self.streams_body = RouteMatcher(plain, prefix, _STREAMS_BODY)
        self.public = RouteMatcher(plain, prefix, _PUBLIC)
        self.idempotent = RouteMatcher(plain, prefix, _IDEMPOTENT)
        self.small_body = RouteMatcher(plain, prefix, _SMALL_BODY)
        self.streams_events = RouteMatcher(plain, prefix, _STREAMS_EVENTS)
