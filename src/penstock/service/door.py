"""The door of the service: keys, and people who are logged in."""

from __future__ import annotations

import logging
from typing import Final

from starlette.requests import HTTPConnection

from penstock.client import Client
from penstock.errors import NotAllowed
from penstock.service.caller import Caller
from penstock.service.problem import Problem
from penstock.service.remembered import Remembered

logger = logging.getLogger("penstock.service")

# A key that was revoked is let in for as long, at most.
FRESH: Final = 5.0
KNOWN_AT_ONCE: Final = 10_000
CHALLENGE: Final = 'Bearer realm="penstock"'


class Guard:
    """Lets in who has a key: `Authorization: Bearer pk_…`."""

    def __init__(self, app: Client) -> None:
        self._app = app
        self._keys = Remembered(self._of_key, seconds=FRESH, most=KNOWN_AT_ONCE)

    async def admit(self, connection: HTTPConnection) -> Caller:
        kind, _, credentials = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return await self._with_key(credentials.strip())
        raise stranger(
            "Give a key: `Authorization: Bearer pk_…`; `penstock keys create` makes one."
        )

    async def _with_key(self, key: str) -> Caller:
        caller = await self._keys.get(key)
        if caller is None:
            told = "This key is unknown, expired or revoked."
            raise stranger(told, f'{CHALLENGE}, error="invalid_token"')
        return caller

    async def _of_key(self, key: str) -> Caller | None:
        try:
            found = await self._app.check_key(key)
        except NotAllowed as error:
            logger.error("Nobody can be let in: %s", error)
            told = "The service may not read its keys; its log says why."
            raise Problem(503, "no-access", told) from error
        if found is None:
            return None
        return Caller(name=f"key:{found.name}", scopes=found.scopes, tenant=found.tenant)


def stranger(detail: str, challenge: str = CHALLENGE) -> Problem:
    """The answer to one whom nobody knows."""
    return Problem(401, "unknown-caller", detail, headers={"www-authenticate": challenge})
