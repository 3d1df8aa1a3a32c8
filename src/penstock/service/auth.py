"""Who asks and what they may do: keys, users who are logged in, users whom a proxy vouches for."""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
from typing import Final, Protocol

from msgspec import Struct
from starlette.requests import HTTPConnection
from starlette.responses import Response

from penstock.app.client import Client
from penstock.errors import NotAllowed
from penstock.groups.keys import ROLES, Scope
from penstock.groups.users import LoggedIn, NewLogin
from penstock.service.cache import KeyedCache
from penstock.service.hosts import Entry, client_address, is_https, peer_address
from penstock.service.passwords import Passwords
from penstock.service.problems import Problem

# Where the gate leaves the caller in a connection's scope.
CALLER: Final = "penstock.caller"
# True in the scope of a connection whose caller may not be one that is only remembered.
BYPASS_CACHE: Final = "penstock.afresh"


class Caller(Struct, frozen=True, kw_only=True):
    """Somebody who was let in. One that is bound to a tenant sees nothing of others."""

    name: str
    scopes: frozenset[Scope]
    tenant: str | None = None
    csrf: str | None = None
    """What requests that change something have to bring, of one whom the browser vouches for."""


def bypasses_cache(connection: HTTPConnection) -> bool:
    """Whether who asks is to be looked up now, whatever an authenticator remembers."""
    return bool(connection.scope.get(BYPASS_CACHE))


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


class Authenticator(Protocol):
    """Lets callers in."""

    async def admit(self, connection: HTTPConnection) -> Caller:
        """Who asks; raises a Problem with 401 for one whom nobody knows.

        A request that changes keys or people asks twice, the second time with `AFRESH` in its
        scope: an authenticator that remembers callers then looks again.
        """
        ...


SESSION_MAX_S: Final = 12 * 3600
SESSION_IDLE_S: Final = 2 * 3600
# A key or a login that was revoked is let in for as long, at most.
CALLER_CACHE_S: Final = 5.0
MAX_CACHED_CALLERS: Final = 10_000
# The name's beginning has browsers refuse one that came without TLS or from a name beside ours.
SECURE_COOKIE: Final = "__Host-penstock"
PLAIN_COOKIE: Final = "penstock_login"


class Logins:
    """Lets people in by name and password, and knows them by their cookies."""

    def __init__(self, app: Client, entry: Entry) -> None:
        self._app = app
        self._entry = entry
        self.passwords = Passwords()
        self._known = KeyedCache(self._check, seconds=CALLER_CACHE_S, most=MAX_CACHED_CALLERS)

    async def enter(self, connection: HTTPConnection, name: str, password: str) -> NewLogin:
        """Log somebody in. Who is unknown, disabled or mistaken gets one and the same answer."""
        address = client_address(connection, self._entry)
        if wait := await self._app.try_login(name, address):
            raise Problem(
                429,
                "too-many-logins",
                "Too many logins have failed: wait before the next.",
                headers={"retry-after": str(math.ceil(wait))},
            )
        person = await self._app.find_person(name)
        kept = None if person is None else person.password_hash
        if not await self.passwords.fits(password, kept) or person is None:
            await self._app.fail_login(name, address)
            raise Problem(401, "login-refused", "The name or the password is wrong.")
        return await self._app.open_login(person.name, address, lasts=SESSION_MAX_S)

    async def leave(self, connection: HTTPConnection) -> None:
        """Log out who came with a cookie."""
        if secret := connection.cookies.get(self._cookie(connection)):
            self._known.forget(secret)
            await self._app.close_login(secret)

    async def known(self, connection: HTTPConnection) -> LoggedIn | None:
        """Who is logged in; None without a cookie, or with one that is over."""
        secret = connection.cookies.get(self._cookie(connection))
        if not secret:
            return None
        return await self._known.get(secret, afresh=bypasses_cache(connection))

    def give(self, response: Response, connection: HTTPConnection, login: NewLogin) -> None:
        """Put the cookie into an answer."""
        self._set(response, connection, login.secret, SESSION_MAX_S)

    def take(self, response: Response, connection: HTTPConnection) -> None:
        """Take the cookie back."""
        self._set(response, connection, "", 0)

    def _set(self, response: Response, connection: HTTPConnection, value: str, lasts: int) -> None:
        response.set_cookie(
            self._cookie(connection),
            value,
            max_age=lasts,
            path="/",
            secure=is_https(connection, self._entry),
            httponly=True,
            samesite="strict",
        )

    def _cookie(self, connection: HTTPConnection) -> str:
        return SECURE_COOKIE if is_https(connection, self._entry) else PLAIN_COOKIE

    async def _check(self, secret: str) -> LoggedIn | None:
        return await self._app.check_login(secret, idle=SESSION_IDLE_S)


logger = logging.getLogger("penstock.service")

CHALLENGE: Final = 'Bearer realm="penstock"'
CSRF_HEADER: Final = "x-csrf-token"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "WEBSOCKET"})


class DefaultAuthenticator:
    """Lets in who has a key (`Authorization: Bearer pk_…`), a login, or a word of a proxy's."""

    def __init__(self, app: Client, entry: Entry, logins: Logins) -> None:
        self._app = app
        self._entry = entry
        self._logins = logins
        self._keys = KeyedCache(self._of_key, seconds=CALLER_CACHE_S, most=MAX_CACHED_CALLERS)
        self._people = KeyedCache(self._of_person, seconds=CALLER_CACHE_S, most=MAX_CACHED_CALLERS)

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
            raise unknown_caller(told)
        _check_csrf(connection, caller)
        return caller

    async def _with_key(self, connection: HTTPConnection, key: str) -> Caller:
        caller = await self._keys.get(key, afresh=bypasses_cache(connection))
        if caller is None:
            told = "This key is unknown, expired or revoked."
            raise unknown_caller(told, f'{CHALLENGE}, error="invalid_token"')
        return caller

    async def _vouched_for(self, connection: HTTPConnection) -> Caller | None:
        """Whom the browser's cookie or the proxy's header names."""
        login = await self._logins.known(connection)
        if login is not None:
            return Caller(name=login.name, scopes=ROLES[login.role], csrf=login.csrf)
        header = self._entry.edge_header
        if header is None or not self._entry.trusts(peer_address(connection)):
            return None
        name = connection.headers.get(header)
        if not name:
            return None
        return await self._people.get(name, afresh=bypasses_cache(connection))

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
    if connection.scope["type"] == "websocket" or connection.scope["method"] in SAFE_METHODS:
        return
    given = connection.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(given.encode(), (caller.csrf or "").encode()):
        told = f"This needs the header {CSRF_HEADER} with the token that /api/v1/me tells."
        raise Problem(403, "csrf", told)


def unknown_caller(detail: str, challenge: str = CHALLENGE) -> Problem:
    """The answer to one whom nobody knows."""
    return Problem(401, "unknown-caller", detail, headers={"www-authenticate": challenge})
