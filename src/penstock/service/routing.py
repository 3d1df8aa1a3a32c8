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


REF: Final = "#/components/schemas/{name}"
_kinds: Final[dict[str, Any]] = {}


def gives(kind: Any, status: int = 200, told: str = "Done.") -> dict[int | str, dict[str, Any]]:
    """What a route answers when all is well; `kind` is a Struct, or a type made of such."""
    _kinds.setdefault(repr(kind), kind)
    [schema], _ = msgspec.json.schema_components([kind], ref_template=REF)
    content = {"application/json": {"schema": schema}}
    return {status: {"description": told, "content": content}}


def components() -> dict[str, Any]:
    """The schemas of all that is given somewhere."""
    _, found = msgspec.json.schema_components(_kinds.values(), ref_template=REF)
    return found


F = TypeVar("F", bound=Callable[..., Any])

_STREAMED: Final = "penstock_streamed"
_UNGUARDED: Final = "penstock_unguarded"
_KEEPS_KEYS: Final = "penstock_keeps_keys"
_GIVES_EVENTS: Final = "penstock_gives_events"
_TAKES_LITTLE: Final = "penstock_takes_little"


def streamed(endpoint: F) -> F:
    """Mark a route that takes its body as it comes, with bounds of its own."""
    setattr(endpoint, _STREAMED, True)
    return endpoint


def unguarded(endpoint: F) -> F:
    """Mark a route that anybody may ask: it looks itself at what it is asked with."""
    setattr(endpoint, _UNGUARDED, True)
    return endpoint


def keeps_keys(endpoint: F) -> F:
    """Mark a route that does once what it is asked twice with one `Idempotency-Key`."""
    setattr(endpoint, _KEEPS_KEYS, True)
    return endpoint


def takes_little(endpoint: F) -> F:
    """Mark a route whose body has only a few short fields."""
    setattr(endpoint, _TAKES_LITTLE, True)
    return endpoint


def gives_events(endpoint: F) -> F:
    """Mark a route that answers with a stream of events if the request asks for one."""
    setattr(endpoint, _GIVES_EVENTS, True)
    return endpoint


class RouteFlags:
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


class Marked:
    """Of routes that are served below a prefix, those that are different."""

    def __init__(self, routes: Iterable[BaseRoute], prefix: str) -> None:
        plain = [route for route in routes if isinstance(route, Route)]
        self.streamed = RouteFlags(plain, prefix, _STREAMED)
        self.unguarded = RouteFlags(plain, prefix, _UNGUARDED)
        self.keyed = RouteFlags(plain, prefix, _KEEPS_KEYS)
        self.takes_little = RouteFlags(plain, prefix, _TAKES_LITTLE)
        self.gives_events = RouteFlags(plain, prefix, _GIVES_EVENTS)
