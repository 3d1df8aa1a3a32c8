"""Who asks, and what that one may do."""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct
from starlette.requests import HTTPConnection

from penstock.client.scopes import Scope
from penstock.service.problem import Problem

# Where the gate leaves the caller in a connection's scope.
CALLER: Final = "penstock.caller"
# True in the scope of a connection whose caller may not be one that is only remembered.
AFRESH: Final = "penstock.afresh"


class Caller(Struct, frozen=True, kw_only=True):
    """Somebody who was let in. One that is bound to a tenant sees nothing of others."""

    name: str
    scopes: frozenset[Scope]
    tenant: str | None = None
    csrf: str | None = None
    """What requests that change something have to bring, of one whom the browser vouches for."""


def is_afresh(connection: HTTPConnection) -> bool:
    """Whether who asks is to be looked up now, whatever a door remembers."""
    return bool(connection.scope.get(AFRESH))


def requester(caller: Caller, person: str | None) -> str:
    """Who asks for a job: the caller, or the person whom a trusted key names."""
    if person is None or person == caller.name:
        return caller.name
    if "on_behalf" not in caller.scopes:
        told = (
            f"requested_by is {caller.name} itself. A key needs the scope 'on_behalf' to name a "
            "person; who is logged in asks for themselves."
        )
        raise Problem(403, "not-allowed", told, fields=[("requested_by", told)])
    return person


class Door(Protocol):
    """Lets callers in."""

    async def admit(self, connection: HTTPConnection) -> Caller:
        """Who asks; raises a Problem with 401 for one whom nobody knows.

        A request that changes keys or people asks twice, the second time with `AFRESH` in its
        scope: a door that remembers callers then looks again.
        """
        ...
