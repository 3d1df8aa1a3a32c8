"""The door of a service to which nobody has given another: it stays shut."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from penstock.service.caller import Caller
from penstock.service.problem import Problem


class Closed:
    """Lets nobody in."""

    async def admit(self, connection: HTTPConnection) -> Caller:
        raise Problem(401, "no-door", "Nobody is let in: the service was given no door.")
