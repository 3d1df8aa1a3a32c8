"""What a caller may do, and the roles of people."""

from __future__ import annotations

from typing import Final, Literal, get_args

Scope = Literal["read", "enqueue", "operate", "admin", "on_behalf"]
Role = Literal["viewer", "operator", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
ROLES: Final[dict[Role, frozenset[Scope]]] = {
    "viewer": frozenset({"read"}),
    "operator": frozenset({"read", "enqueue", "operate"}),
    # A person asks for themselves: only keys act on behalf of others.
    "admin": frozenset({"read", "enqueue", "operate", "admin"}),
}
