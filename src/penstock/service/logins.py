"""Logins of people: a cookie that no script can read, and a token that other pages cannot know."""

from __future__ import annotations

import math
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from penstock.client import Client
from penstock.client.people import LoggedIn, NewLogin
from penstock.service.caller import is_afresh
from penstock.service.entry import Entry, address_of, is_https
from penstock.service.passwords import Passwords
from penstock.service.problem import Problem
from penstock.service.remembered import Remembered

LASTS: Final = 12 * 3600
IDLE: Final = 2 * 3600
FRESH: Final = 5.0
KNOWN_AT_ONCE: Final = 10_000
# The name's beginning has browsers refuse one that came without TLS or from a name beside ours.
SECURE: Final = "__Host-penstock"
PLAIN: Final = "penstock_login"


class Logins:
    """Lets people in by name and password, and knows them by their cookies."""

    def __init__(self, app: Client, entry: Entry) -> None:
        self._app = app
        self._entry = entry
        self.passwords = Passwords()
        self._known = Remembered(self._check, seconds=FRESH, most=KNOWN_AT_ONCE)

    async def enter(self, connection: HTTPConnection, name: str, password: str) -> NewLogin:
        """Log somebody in. Who is unknown, disabled or mistaken gets one and the same answer."""
        address = address_of(connection, self._entry)
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
        return await self._app.open_login(person.name, address, lasts=LASTS)

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
        return await self._known.get(secret, afresh=is_afresh(connection))

    def give(self, response: Response, connection: HTTPConnection, login: NewLogin) -> None:
        """Put the cookie into an answer."""
        self._set(response, connection, login.secret, LASTS)

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
        return SECURE if is_https(connection, self._entry) else PLAIN

    async def _check(self, secret: str) -> LoggedIn | None:
        return await self._app.check_login(secret, idle=IDLE)
