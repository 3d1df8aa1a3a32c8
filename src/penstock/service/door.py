"""The door of the service: keys, people who are logged in, people whom a proxy vouches for."""

from __future__ import annotations

import hashlib
import hmac
import logging
from typing import Final

from starlette.requests import HTTPConnection

from penstock.client import Client
from penstock.client.scopes import ROLES
from penstock.errors import NotAllowed
from penstock.service.caller import Caller, is_afresh
from penstock.service.entry import Entry, peer_of
from penstock.service.logins import Logins
from penstock.service.problem import Problem
from penstock.service.remembered import Remembered

logger = logging.getLogger("penstock.service")

# A key that was revoked is let in for as long, at most.
FRESH: Final = 5.0
KNOWN_AT_ONCE: Final = 10_000
CHALLENGE: Final = 'Bearer realm="penstock"'
CSRF: Final = "x-csrf-token"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "WEBSOCKET"})


class Guard:
    """Lets in who has a key (`Authorization: Bearer pk_…`), a login, or a word of a proxy's."""

    def __init__(self, app: Client, entry: Entry, logins: Logins) -> None:
        self._app = app
        self._entry = entry
        self._logins = logins
        self._keys = Remembered(self._of_key, seconds=FRESH, most=KNOWN_AT_ONCE)
        self._people = Remembered(self._of_person, seconds=FRESH, most=KNOWN_AT_ONCE)

    async def admit(self, connection: HTTPConnection) -> Caller:
        try:
            return await self._admit(connection)
        except NotAllowed as error:
            logger.error("Nobody can be let in: %s", error)
            told = "The service may not read who may use it; its log says why."
            raise Problem(503, "no-access", told) from error

    async def _admit(self, connection: HTTPConnection) -> Caller:
        kind, _, credentials = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return await self._with_key(connection, credentials.strip())
        caller = await self._vouched_for(connection)
        if caller is None:
            told = "Give a key, `Authorization: Bearer pk_…`, or log in."
            raise stranger(told)
        _check_csrf(connection, caller)
        return caller

    async def _with_key(self, connection: HTTPConnection, key: str) -> Caller:
        caller = await self._keys.get(key, afresh=is_afresh(connection))
        if caller is None:
            told = "This key is unknown, expired or revoked."
            raise stranger(told, f'{CHALLENGE}, error="invalid_token"')
        return caller

    async def _vouched_for(self, connection: HTTPConnection) -> Caller | None:
        """Whom the browser's cookie or the proxy's header names."""
        login = await self._logins.known(connection)
        if login is not None:
            return Caller(name=login.name, scopes=ROLES[login.role], csrf=login.csrf)
        header = self._entry.edge_header
        if header is None or not self._entry.trusts(peer_of(connection)):
            return None
        name = connection.headers.get(header)
        if not name:
            return None
        return await self._people.get(name, afresh=is_afresh(connection))

    async def _of_key(self, key: str) -> Caller | None:
        found = await self._app.check_key(key)
        if found is None:
            return None
        return Caller(name=f"key:{found.name}", scopes=found.scopes, tenant=found.tenant)

    async def _of_person(self, name: str) -> Caller | None:
        found = await self._app.find_person(name)
        if found is None:
            return None
        # The same on every server, and nobody else's to know.
        secret = found.password_hash.encode()
        csrf = hmac.new(secret, b"penstock csrf", hashlib.sha256).hexdigest()
        return Caller(name=found.name, scopes=ROLES[found.role], csrf=csrf)


def _check_csrf(connection: HTTPConnection, caller: Caller) -> None:
    """Browsers send cookies along with what any page asks for; the token only our own knows."""
    # A socket only listens, no page can send a header with it, and the gate has seen its origin.
    if connection.scope["type"] == "websocket" or connection.scope["method"] in SAFE:
        return
    given = connection.headers.get(CSRF, "")
    if not hmac.compare_digest(given.encode(), (caller.csrf or "").encode()):
        told = f"This needs the header {CSRF} with the token that /api/v1/me tells."
        raise Problem(403, "csrf", told)


def stranger(detail: str, challenge: str = CHALLENGE) -> Problem:
    """The answer to one whom nobody knows."""
    return Problem(401, "unknown-caller", detail, headers={"www-authenticate": challenge})
