"""Routes: which may be reached without a key, and their answers as JSON and in OpenAPI's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, compile_path

_encoder = msgspec.json.Encoder()


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as a JSON response."""
    return Response(_encoder.encode(value), status, headers, "application/json")


SCHEMA_REF: Final = "#/components/schemas/{name}"
_response_types: Final[dict[str, Any]] = {}


def returns(kind: Any, status: int = 200, told: str = "Done.") -> dict[int | str, dict[str, Any]]:
    """What a route answers when all is well; `kind` is a Struct, or a type made of such."""
    _response_types.setdefault(repr(kind), kind)
    [schema], _ = msgspec.json.schema_components([kind], ref_template=SCHEMA_REF)
    content = {"application/json": {"schema": schema}}
    return {status: {"description": told, "content": content}}


def component_schemas() -> dict[str, Any]:
    """The schemas of all that is given somewhere."""
    _, found = msgspec.json.schema_components(_response_types.values(), ref_template=SCHEMA_REF)
    return found


F = TypeVar("F", bound=Callable[..., Any])

_STREAMS_BODY: Final = "penstock_streamed"
_PUBLIC: Final = "penstock_unguarded"
_IDEMPOTENT: Final = "penstock_keeps_keys"
_STREAMS_EVENTS: Final = "penstock_gives_events"
_SMALL_BODY: Final = "penstock_takes_little"


def streams_body(endpoint: F) -> F:
    """Mark a route that takes its body as it comes, with bounds of its own."""
    setattr(endpoint, _STREAMS_BODY, True)
    return endpoint


def public(endpoint: F) -> F:
    """Mark a route that anybody may ask: it looks itself at what it is asked with."""
    setattr(endpoint, _PUBLIC, True)
    return endpoint


def idempotent(endpoint: F) -> F:
    """Mark a route that does once what it is asked twice with one `Idempotency-Key`."""
    setattr(endpoint, _IDEMPOTENT, True)
    return endpoint


def small_body(endpoint: F) -> F:
    """Mark a route whose body has only a few short fields."""
    setattr(endpoint, _SMALL_BODY, True)
    return endpoint


def streams_events(endpoint: F) -> F:
    """Mark a route that answers with a stream of events if the request asks for one."""
    setattr(endpoint, _STREAMS_EVENTS, True)
    return endpoint


class RouteMatcher:
    """Verbs and paths of routes with a mark."""

    def __init__(self, routes: Iterable[Route], prefix: str, mark: str) -> None:
        self._ways = [
            (route.methods or set(), compile_path(prefix + route.path)[0])
            for route in routes
            if hasattr(route.endpoint, mark)
        ]

    def lead(self, verb: str, path: str) -> bool:
        """Whether a request takes one of them."""
        return any(verb in verbs and pattern.match(path) for verbs, pattern in self._ways)


class RouteFlags:
    """Of routes that are served below a prefix, those that are different."""

    def __init__(self, routes: Iterable[BaseRoute], prefix: str) -> None:
        plain = [route for route in routes if isinstance(route, Route)]
        self.streamed = RouteMatcher(plain, prefix, _STREAMS_BODY)
        self.unguarded = RouteMatcher(plain, prefix, _PUBLIC)
        self.keyed = RouteMatcher(plain, prefix, _IDEMPOTENT)
        self.takes_little = RouteMatcher(plain, prefix, _SMALL_BODY)
        self.gives_events = RouteMatcher(plain, prefix, _STREAMS_EVENTS)
