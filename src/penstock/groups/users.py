"""Manage the users of the service and their sessions."""

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
# For a name and for an address: how many failed logins cost no wait, and the longest wait.
FREE_FAILURES: Final = (5, 20)
MAX_LOGIN_WAITS_S: Final = (60.0, 900.0)


class Person(Struct, frozen=True, kw_only=True):
    """A person who may log in, unless `disabled_at` is set."""

    name: str
    role: Role
    created_at: datetime
    created_by: str
    disabled_at: datetime | None


class Credentials(Struct, frozen=True, kw_only=True):
    """A person and the hash of their password."""

    name: str
    role: Role
    password_hash: str

    def __repr__(self) -> str:
        return f"Credentials({self.name}, {self.role}, …)"


class LoggedIn(Struct, frozen=True, kw_only=True):
    """A person who is logged in. Requests that change something must send `csrf`."""

    name: str
    role: Role
    csrf: str


class NewLogin(Struct, frozen=True, kw_only=True):
    """A new session. `secret` is for the cookie and is not stored."""

    secret: str
    csrf: str

    def __repr__(self) -> str:
        return "NewLogin(…)"


class UserCalls(Calls):
    """The calls for people and their sessions.

    `by` is the name that the audit records for a change. Passwords are passed as hashes, so that
    programs that only enqueue need no hashing library.
    """

    async def add_person(
        self, name: str, *, role: Role, password_hash: str, by: str | None = None
    ) -> Person:
        """Add a person who may log in to the service. Raises NameTaken."""
        _check(name, role)
        actor = self._actor(by)
        row = await self._execute(
            lambda on: Access(self.store).row(on, "add_person", name, role, password_hash, actor),
            retry=False,
        )
        if row is None:
            raise NameTaken(
                "person",
                name,
                f"change that person's password with `penstock people password {name}`",
            )
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

        With `keep_admin`, the call refuses to disable or demote the last admin, unless there is a
        key with the scope admin that never expires.
        """
        client_scope.check_texts(name=name)
        if role is not None:
            _check(name, role)
        actor = self._actor(by)
        row = await self._execute(
            lambda on: Access(self.store).row(
                on, "set_person", name, role, password_hash, disabled, actor, keep_admin
            )
        )
        if row is None:
            if keep_admin and any(person.name == name for person in await self.people()):
                raise LastAdmin(f"person {name!r}")
            raise PersonNotFound(name)
        return Person(**row)

    async def people(
        self, *, after: str | None = None, limit: int | None = None
    ) -> Sequence[Person]:
        """Return all people by name, including those who are disabled.

        If you set a `limit`, pass the name of the last person as `after` for the next page.
        """
        client_scope.check_texts(after=after)
        rows = await self._execute(
            lambda on: Access(self.store).rows(on, "list_people", after, limit)
        )
        return [Person(**row) for row in rows]

    async def find_person(self, name: str) -> Credentials | None:
        """Return a person who may log in, with the hash of their password.

        Return None if there is no such person.
        """
        client_scope.check_texts(name=name)
        row = await self._execute(lambda on: Access(self.store).row(on, "find_person", name))
        return None if row is None else Credentials(**row)

    # Logins

    async def try_login(self, name: str, address: str) -> float:
        """Count an attempt to log in, and return for how many seconds it has to wait.

        The wait is 0 until there were too many attempts. Call this before you compare the password.
        Attempts are counted by name and by address, for all servers together.
        """
        row = await self._execute(
            lambda on: Access(self.store).row(
                on,
                "try_login",
                _subjects(name, address),
                list(FREE_FAILURES),
                list(MAX_LOGIN_WAITS_S),
            ),
            retry=False,
        )
        assert row is not None
        return float(row["wait"])

    async def fail_login(self, name: str, address: str) -> None:
        """Write a failed login to the audit."""
        await self._execute(
            lambda on: Access(self.store).rows(on, "write_failed_login", name, address), retry=False
        )

    async def open_login(self, name: str, address: str, *, lasts: float | timedelta) -> NewLogin:
        """Open a session for a person whose password was right."""
        login = NewLogin(secret=secrets.token_urlsafe(32), csrf=secrets.token_urlsafe(32))
        length = seconds("lasts", lasts)
        values: tuple[Any, ...] = (
            hash_of(login.secret),
            name,
            login.csrf,
            _subjects(name, address),
        )
        await self._execute(
            lambda on: Access(self.store).rows(on, "open_login", *values, length, address),
            retry=False,
        )
        return login

    async def check_login(self, secret: str, *, idle: float | timedelta) -> LoggedIn | None:
        """Return the person who is logged in with the secret of a cookie.

        Return None if the session has ended or was idle for too long.
        """
        key, access = hash_of(secret), Access(self.store)
        length = seconds("idle", idle)
        row = await self._execute(lambda on: access.row(on, "authenticate_login", key, length))
        if row is None:
            return None
        if row.pop("is_stale"):
            await self._execute(lambda on: access.rows(on, "touch_login", key))
        return LoggedIn(**row)

    async def close_login(self, secret: str) -> bool:
        """Close a session. Return False if it had ended already."""
        key = hash_of(secret)
        return bool(await self._execute(lambda on: Access(self.store).rows(on, "close_login", key)))


def _check(name: str, role: str) -> None:
    if not NAME.fullmatch(name):
        raise BadArgument("name", name, "1 to 100 letters, digits and . _ @ + -")
    if role not in ROLES:
        raise BadArgument("role", role, f"one of {', '.join(ROLES)}")


def _subjects(name: str, address: str) -> list[bytes]:
    """Return the hashes by which attempts are counted: one of the name, one of the address.

    Names are hashed because people sometimes type their password as their name.
    """
    return [hash_of(f"name {name}"), hash_of(f"address {_counted_address(address)}")]


def _counted_address(address: str) -> str:
    """Return the address by which attempts are counted.

    For IPv6 it is the /64 network, since one host can use all addresses of that network.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))
    return str(parsed)
