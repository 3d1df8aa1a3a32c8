"""People who use the service, and their logins."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, Final

from msgspec import Struct

from penstock.connect import scope as client_scope
from penstock.connect.scope import Calls
from penstock.errors import BadArgument, LastAdmin, NameTaken, PersonNotFound
from penstock.groups.arguments import seconds
from penstock.groups.keys import ROLES, Role, hash_of
from penstock.store.access import Access

NAME: Final = re.compile(r"[\w.@+-]{1,100}")
# Of a name and of an address: how many failures are free, and then the longest wait in seconds.
FREE: Final = (5, 20)
MOST: Final = (60.0, 900.0)


class Person(Struct, frozen=True, kw_only=True):
    """Somebody who may log in, unless `disabled_at` says since when no more."""

    name: str
    role: Role
    created_at: datetime
    created_by: str
    disabled_at: datetime | None


class Credentials(Struct, frozen=True, kw_only=True):
    """What a person's password is compared with."""

    name: str
    role: Role
    password_hash: str

    def __repr__(self) -> str:
        return f"Credentials({self.name}, {self.role}, …)"


class LoggedIn(Struct, frozen=True, kw_only=True):
    """A person who is logged in; requests that change something have to bring `csrf` with them."""

    name: str
    role: Role
    csrf: str


class NewLogin(Struct, frozen=True, kw_only=True):
    """A login that began just now: `secret` is for the cookie, and kept nowhere."""

    secret: str
    csrf: str

    def __repr__(self) -> str:
        return "NewLogin(…)"


class UserCalls(Calls):
    """The calls about people and logins. `by` says in the audit who made a change.

    Passwords come as hashes: what makes them is not for every program that enqueues.
    """

    async def add_person(
        self, name: str, *, role: Role, password_hash: str, by: str | None = None
    ) -> Person:
        """Let somebody log in to the service."""
        _check(name, role)
        actor = self._actor(by)
        row = await self._ask(
            lambda on: Access(self.store).row(on, "add_person", name, role, password_hash, actor),
            again=False,
        )
        if row is None:
            raise NameTaken("person", name, f"change them: `penstock people password {name}`")
        return Person(**row)

    async def set_person(
        self,
        name: str,
        *,
        role: Role | None = None,
        password_hash: str | None = None,
        disabled: bool | None = None,
        keep_admin: bool = False,
        by: str | None = None,
    ) -> Person:
        """Change a person. A new password, or disabling the person, ends all of their sessions.

        `keep_admin` refuses to disable or demote the last admin, unless there is a key with the
        scope admin that never expires.
        """
        client_scope.texts(name=name)
        if role is not None:
            _check(name, role)
        actor = self._actor(by)
        row = await self._ask(
            lambda on: Access(self.store).row(
                on, "set_person", name, role, password_hash, disabled, actor, keep_admin
            )
        )
        if row is None:
            if keep_admin and any(each.name == name for each in await self.people()):
                raise LastAdmin(f"person {name!r}")
            raise PersonNotFound(name)
        return Person(**row)

    async def people(
        self, *, after: str | None = None, limit: int | None = None
    ) -> Sequence[Person]:
        """All people by name, including those who are disabled.

        With a `limit`, pass the last one's name as `after` for more.
        """
        client_scope.texts(after=after)
        rows = await self._ask(lambda on: Access(self.store).rows(on, "list_people", after, limit))
        return [Person(**row) for row in rows]

    async def find_person(self, name: str) -> Credentials | None:
        """A person who may log in, with what the password is compared with."""
        client_scope.texts(name=name)
        row = await self._ask(lambda on: Access(self.store).row(on, "find_person", name))
        return None if row is None else Credentials(**row)

    # Logins

    async def try_login(self, name: str, address: str) -> float:
        """Count an attempt to log in; the seconds to wait first, if there were too many.

        It is counted before anything is compared, by name and by address, over all servers.
        """
        row = await self._ask(
            lambda on: Access(self.store).row(
                on, "try_login", _subjects(name, address), list(FREE), list(MOST)
            ),
            again=False,
        )
        assert row is not None
        return float(row["wait"])

    async def fail_login(self, name: str, address: str) -> None:
        """Note that somebody was not let in."""
        await self._ask(
            lambda on: Access(self.store).rows(on, "write_failed_login", name, address), again=False
        )

    async def open_login(self, name: str, address: str, *, lasts: float | timedelta) -> NewLogin:
        """Log a person in, whose password was right."""
        made = NewLogin(secret=secrets.token_urlsafe(32), csrf=secrets.token_urlsafe(32))
        length = seconds("lasts", lasts)
        values: tuple[Any, ...] = (hash_of(made.secret), name, made.csrf, _subjects(name, address))
        await self._ask(
            lambda on: Access(self.store).rows(on, "open_login", *values, length, address),
            again=False,
        )
        return made

    async def check_login(self, secret: str, *, idle: float | timedelta) -> LoggedIn | None:
        """Who is logged in with a cookie; nobody, if it is over or was not used for so long."""
        key, access = hash_of(secret), Access(self.store)
        length = seconds("idle", idle)
        row = await self._ask(lambda on: access.row(on, "authenticate_login", key, length))
        if row is None:
            return None
        if row.pop("is_stale"):
            await self._ask(lambda on: access.rows(on, "touch_login", key))
        return LoggedIn(**row)

    async def close_login(self, secret: str) -> bool:
        """Log out. False if the login was over already."""
        key = hash_of(secret)
        return bool(await self._ask(lambda on: Access(self.store).rows(on, "close_login", key)))


def _check(name: str, role: str) -> None:
    if not NAME.fullmatch(name):
        raise BadArgument("name", name, "1 to 100 letters, digits and . _ @ + -")
    if role not in ROLES:
        raise BadArgument("role", role, f"one of {', '.join(ROLES)}")


def _subjects(name: str, address: str) -> list[bytes]:
    """Whose attempts are counted; as hashes, since a name that was typed may be a password."""
    return [hash_of(f"name {name}"), hash_of(f"address {_neighbourhood(address)}")]


def _neighbourhood(address: str) -> str:
    """Of IPv6 the network: whoever has one address there has them all."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(found.ipv4_mapped or ip_network((found, 64), strict=False))
    return str(found)
