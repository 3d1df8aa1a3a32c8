"""Identify the caller of a request by an API key, a login, or the header of a trusted proxy."""

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

# The middleware stores the caller under this key in the scope of a connection.
CALLER: Final = "penstock.caller"
# If True in a scope, the authenticator must look the caller up anew, and not in its cache.
BYPASS_CACHE: Final = "penstock.afresh"


class Caller(Struct, frozen=True, kw_only=True):
    """An authenticated caller. A caller that is bound to a tenant sees nothing of other tenants."""

    name: str
    scopes: frozenset[Scope]
    tenant: str | None = None
    csrf: str | None = None
    """The CSRF token that a caller with a cookie must send with each request that changes data."""


def bypasses_cache(connection: HTTPConnection) -> bool:
    """Return whether an authenticator must look the caller up instead of using its cache."""
    return bool(connection.scope.get(BYPASS_CACHE))


def requester(caller: Caller, person: str | None) -> str:
    """Return who requests a job: the caller, or the person whom a key with `on_behalf` names.

    Raises a Problem with 403 if the key may not name other people.
    """
    if person is None or person == caller.name:
        return caller.name
    if "on_behalf" not in caller.scopes:
        detail = (
            f"requested_by must be {caller.name} here. Only a key with the scope 'on_behalf' may "
            "name another person."
        )
        raise Problem(403, "not-allowed", detail, fields=[("requested_by", detail)])
    return person


class Authenticator(Protocol):
    """Tells a service who sends a request. Pass your own to `Service` as `door`."""

    async def admit(self, connection: HTTPConnection) -> Caller:
        """Return the caller. Raises a Problem with 401 if the caller is unknown.

        A request that changes data and needs the scope `admin` calls this twice. The second time,
        `BYPASS_CACHE` is set in the ASGI scope, and an authenticator with a cache must look the
        caller up again.
        """
        ...


SESSION_MAX_S: Final = 12 * 3600
SESSION_IDLE_S: Final = 2 * 3600
# A revoked key or login is accepted for at most this long.
CALLER_CACHE_S: Final = 5.0
MAX_CACHED_CALLERS: Final = 10_000
# Because of the prefix `__Host-`, browsers refuse this cookie from plain HTTP or a sibling domain.
SECURE_COOKIE: Final = "__Host-penstock"
PLAIN_COOKIE: Final = "penstock_login"


class Logins:
    """Logs people in by name and password, and recognizes them by their cookies."""

    def __init__(self, app: Client, entry: Entry) -> None:
        self._app = app
        self._entry = entry
        self.passwords = Passwords()
        self._sessions = KeyedCache(
            self._check_login, seconds=CALLER_CACHE_S, max_keys=MAX_CACHED_CALLERS
        )

    async def log_in(self, connection: HTTPConnection, name: str, password: str) -> NewLogin:
        """Log a person in. Raises a Problem with 401, or with 429 after too many failures.

        The 401 does not reveal whether the name is unknown, the person is disabled or the password
        is wrong.
        """
        address = client_address(connection, self._entry)
        if wait := await self._app.try_login(name, address):
            raise Problem(
                429,
                "too-many-logins",
                "Too many logins have failed. Wait before you try again.",
                headers={"retry-after": str(math.ceil(wait))},
            )
        person = await self._app.find_person(name)
        password_hash = None if person is None else person.password_hash
        if not await self.passwords.verify(password, password_hash) or person is None:
            await self._app.fail_login(name, address)
            raise Problem(401, "login-refused", "The name or the password is wrong.")
        return await self._app.open_login(person.name, address, lasts=SESSION_MAX_S)

    async def log_out(self, connection: HTTPConnection) -> None:
        """End the login whose cookie the request carries, if it carries one."""
        if secret := connection.cookies.get(self._cookie_name(connection)):
            self._sessions.forget(secret)
            await self._app.close_login(secret)

    async def find_login(self, connection: HTTPConnection) -> LoggedIn | None:
        """Return the login that the request's cookie names, or None without a valid login."""
        secret = connection.cookies.get(self._cookie_name(connection))
        if not secret:
            return None
        return await self._sessions.get(secret, fresh=bypasses_cache(connection))

    def set_cookie(self, response: Response, connection: HTTPConnection, login: NewLogin) -> None:
        self._write_cookie(response, connection, login.secret, SESSION_MAX_S)

    def clear_cookie(self, response: Response, connection: HTTPConnection) -> None:
        self._write_cookie(response, connection, "", 0)

    def _write_cookie(
        self, response: Response, connection: HTTPConnection, value: str, max_age: int
    ) -> None:
        response.set_cookie(
            self._cookie_name(connection),
            value,
            max_age=max_age,
            path="/",
            secure=is_https(connection, self._entry),
            httponly=True,
            samesite="strict",
        )

    def _cookie_name(self, connection: HTTPConnection) -> str:
        return SECURE_COOKIE if is_https(connection, self._entry) else PLAIN_COOKIE

    async def _check_login(self, secret: str) -> LoggedIn | None:
        return await self._app.check_login(secret, idle=SESSION_IDLE_S)


logger = logging.getLogger("penstock.service")

CHALLENGE: Final = 'Bearer realm="penstock"'
CSRF_HEADER: Final = "x-csrf-token"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "WEBSOCKET"})


class DefaultAuthenticator:
    """Accepts an API key (`Authorization: Bearer pk_…`), a login's cookie, or a proxy's header."""

    def __init__(self, app: Client, entry: Entry, logins: Logins) -> None:
        self._app = app
        self._entry = entry
        self._logins = logins
        self._keys = KeyedCache(self._find_key, seconds=CALLER_CACHE_S, max_keys=MAX_CACHED_CALLERS)
        self._people = KeyedCache(
            self._find_person, seconds=CALLER_CACHE_S, max_keys=MAX_CACHED_CALLERS
        )

    async def admit(self, connection: HTTPConnection) -> Caller:
        try:
            return await self._admit(connection)
        except NotAllowed as error:
            logger.error("Callers cannot be authenticated: %s", error)
            detail = "The service may not read its keys and users. Its log names the missing right."
            raise Problem(503, "no-access", detail) from error

    async def _admit(self, connection: HTTPConnection) -> Caller:
        kind, _, credentials = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return await self._admit_key(connection, credentials.strip())
        caller = await self._find_browser_user(connection)
        if caller is None:
            raise unknown_caller("Send a key as `Authorization: Bearer pk_…`, or log in.")
        _check_csrf(connection, caller)
        return caller

    async def _admit_key(self, connection: HTTPConnection, key: str) -> Caller:
        caller = await self._keys.get(key, fresh=bypasses_cache(connection))
        if caller is None:
            detail = "This key is unknown, expired or revoked."
            raise unknown_caller(detail, f'{CHALLENGE}, error="invalid_token"')
        return caller

    async def _find_browser_user(self, connection: HTTPConnection) -> Caller | None:
        """Return the person whom the login cookie or the proxy's header names, or None."""
        login = await self._logins.find_login(connection)
        if login is not None:
            return Caller(name=login.name, scopes=ROLES[login.role], csrf=login.csrf)
        header = self._entry.edge_header
        if header is None or not self._entry.trusts(peer_address(connection)):
            return None
        name = connection.headers.get(header)
        if not name:
            return None
        return await self._people.get(name, fresh=bypasses_cache(connection))

    async def _find_key(self, secret: str) -> Caller | None:
        key = await self._app.check_key(secret)
        if key is None:
            return None
        return Caller(name=f"key:{key.name}", scopes=key.scopes, tenant=key.tenant)

    async def _find_person(self, name: str) -> Caller | None:
        person = await self._app.find_person(name)
        if person is None:
            return None
        # All servers derive the same token, and nobody who lacks the hash can.
        secret = person.password_hash.encode()
        csrf = hmac.new(secret, b"penstock csrf", hashlib.sha256).hexdigest()
        return Caller(name=person.name, scopes=ROLES[person.role], csrf=csrf)


def _check_csrf(connection: HTTPConnection, caller: Caller) -> None:
    """Refuse a request that changes data but lacks the CSRF token.

    Browsers send the cookie with requests from any page, but only our own pages know the token.
    """
    # A WebSocket changes nothing, pages cannot send headers with it, and the middleware has
    # checked its origin.
    if connection.scope["type"] == "websocket" or connection.scope["method"] in SAFE_METHODS:
        return
    token = connection.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(token.encode(), (caller.csrf or "").encode()):
        detail = f"This needs the header {CSRF_HEADER} with the token from GET /api/v1/me."
        raise Problem(403, "csrf", detail)


def unknown_caller(detail: str, challenge: str = CHALLENGE) -> Problem:
    """Return the Problem with 401 for a request without a valid key or login."""
    return Problem(401, "unknown-caller", detail, headers={"www-authenticate": challenge})
