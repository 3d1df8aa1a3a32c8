"""What the API answers, in OpenAPI's words, read off the values themselves."""

from __future__ import annotations

from typing import Any, Final

import msgspec

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
