"""Check who may watch a subject: an authenticated caller, or a client with a ticket."""

from __future__ import annotations

from msgspec import Struct
from starlette.requests import HTTPConnection

from penstock.service.auth import CALLER, Caller
from penstock.service.dependencies import runtime_of
from penstock.service.live.hub import Subject
from penstock.service.problems import Problem


class LiveAccess(Struct, frozen=True):
    """A caller who may watch subjects. `subjects` are those of a ticket; None without a ticket."""

    caller: Caller
    subjects: frozenset[str] | None = None

    def check(self, subject: Subject) -> None:
        """Raise a Problem if the caller's ticket is not for this subject."""
        if self.subjects is not None and str(subject) not in self.subjects:
            raise Problem(403, "not-allowed", f"The ticket is not for {subject}.")

    @property
    def has_ticket(self) -> bool:
        return self.subjects is not None


async def access_of(connection: HTTPConnection) -> LiveAccess:
    """Return the access of a connection. Raises a Problem if the caller may not watch anything."""
    runtime = runtime_of(connection)
    if ticket := connection.query_params.get("ticket"):
        return LiveAccess(*runtime.tickets.admit(ticket))
    caller: Caller = connection.scope[CALLER]
    if "read" not in caller.scopes:
        raise Problem(403, "not-allowed", f"This needs the scope 'read'; {caller.name} lacks it.")
    return LiveAccess(caller)
