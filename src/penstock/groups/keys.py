"""Keys for programs that use the service: what they may do, and what is kept of them."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, get_args

from msgspec import Struct

from penstock.connect import scope as client_scope
from penstock.connect.scope import Calls, TenantScope, in_transaction
from penstock.errors import (
    BadArgument,
    KeyNotFound,
    LastAdmin,
    Misuse,
    NameTaken,
    RolesUnfit,
    TenantUnguarded,
)
from penstock.groups.arguments import matching, seconds
from penstock.sql import quote, roles
from penstock.store import Executor, errors, read_role_rights
from penstock.store.access import Access

Scope = Literal["read", "enqueue", "operate", "admin", "on_behalf"]
Role = Literal["viewer", "operator", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
ROLES: Final[dict[Role, frozenset[Scope]]] = {
    "viewer": frozenset({"read"}),
    "operator": frozenset({"read", "enqueue", "operate"}),
    # A person asks for themselves: only keys act on behalf of others.
    "admin": frozenset({"read", "enqueue", "operate", "admin"}),
}


ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
_TEXT: Final = re.compile(r"pk_([0-9a-z]{8,32})_([A-Za-z0-9_-]{43})")


class Secret(NamedTuple):
    """A key: its id, which is public, and a random text of 256 bits, which nobody keeps."""

    id: str
    text: str

    @classmethod
    def new(cls) -> Secret:
        return cls(secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES))

    @classmethod
    def read(cls, key: str) -> Secret | None:
        """What a text says that may be a key; None if it cannot be one."""
        found = _TEXT.fullmatch(key)
        return None if found is None else cls(*found.groups())

    @property
    def key(self) -> str:
        """The whole key, as its owner is shown it once."""
        return f"pk_{self.id}_{self.text}"

    @property
    def hash(self) -> bytes:
        """What is kept. A random text needs neither salt nor a slow hash."""
        return hash_of(self.text)

    def fits(self, kept: bytes) -> bool:
        return hmac.compare_digest(self.hash, kept)

    def __repr__(self) -> str:
        return f"Secret({self.id}, …)"


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


DAY: Final = 86_400.0
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}")
SET_GRANTED: Final = 160_000
FIRST: Final = "first"


class Key(Struct, frozen=True, kw_only=True):
    """A key, without its secret. One that is bound to a `tenant` sees nothing of others."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    tenant: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    """Within a minute."""
    revoked_at: datetime | None
    replaced_by: str | None
    """The id of the key that came in its place."""


class NewKey(Struct, frozen=True, kw_only=True):
    """A key that was made just now; `secret` is the key itself, and is shown this once."""

    key: Key
    secret: str

    def __repr__(self) -> str:
        return f"NewKey(key={self.key!r}, secret=…)"


class Admitted(Struct, frozen=True, kw_only=True):
    """Whom a key lets in, and to what."""

    name: str
    scopes: frozenset[Scope]
    tenant: str | None


class KeyCalls(Calls):
    """The calls about keys. `by` says in the audit who made a change."""

    async def create_key(
        self,
        name: str,
        *,
        scopes: Iterable[Scope],
        tenant: str | None = None,
        expires: float | timedelta | None = None,
        by: str | None = None,
    ) -> NewKey:
        """Make a key for a program that uses the service.

            made = await app.create_key("ci", scopes=["read", "enqueue"], expires=90 * 86_400)
            made.secret                     # pk_…: kept nowhere, and shown this once

        With a `tenant` it sees that one alone, by row level security, which must be on for it.
        """
        matching("name", name, NAME)
        chosen = _scopes(scopes, tenant)
        length = _length("expires", expires)
        if tenant is not None:
            await self._expect_guarded(tenant)
        made, actor = Secret.new(), self._actor(by)
        row = await self._ask(
            lambda on: Access(self.store).row(
                on, "create_key", made.id, name, made.hash, chosen, tenant, length, actor
            ),
            again=False,
        )
        if row is None:
            raise NameTaken("key", name, f"`penstock keys revoke {name}` frees it")
        return NewKey(key=_key(row), secret=made.key)

    async def keys(
        self, *, all: bool = False, after: str | None = None, limit: int | None = None
    ) -> Sequence[Key]:
        """The valid keys, by name; with `all` also revoked and expired ones.

        With a `limit`, pass the last one's id as `after` for more.
        """
        client_scope.texts(after=after)
        rows = await self._ask(
            lambda on: Access(self.store).rows(on, "list_keys", all, after, limit)
        )
        return [_key(row) for row in rows]

    async def get_key(self, key: str) -> Key:
        """A key by its id, or by its name while it is in use."""
        client_scope.texts(key=key)
        row = await self._ask(lambda on: Access(self.store).row(on, "find_key", key))
        if row is None:
            raise KeyNotFound(key)
        return _key(row)

    async def rotate_key(
        self,
        key: str,
        *,
        overlap: float | timedelta = DAY,
        expires: float | timedelta | None = None,
        keep_admin: bool = False,
        by: str | None = None,
    ) -> NewKey:
        """Make a new key in place of one, which is good for the `overlap` still.

        It has the same name and rights and, unless `expires` says otherwise, as long a life.
        `keep_admin` refuses to shorten the life of the last key with the scope admin, unless a
        person has that role.
        """
        left, length = seconds("overlap", overlap), _length("expires", expires)
        old, made, actor = await self.get_key(key), Secret.new(), self._actor(by)
        row = await self._ask(
            lambda on: Access(self.store).row(
                on, "rotate_key", old.id, made.id, made.hash, length, left, actor, keep_admin
            ),
            again=False,
        )
        if row is None:
            now = await self.get_key(old.id)
            if now.revoked_at is None and now.replaced_by is None:
                raise LastAdmin(f"key {key!r}")
            raise KeyNotFound(key)
        return NewKey(key=_key(row), secret=made.key)

    async def revoke_key(
        self, key: str, *, keep_admin: bool = False, by: str | None = None
    ) -> Sequence[str]:
        """Revoke a key by its id, or all keys of a name; return their ids.

        Services know within five seconds. `keep_admin` refuses to revoke the last key with the
        scope admin, unless a person has that role. Another key counts if it expires no sooner.
        """
        client_scope.texts(key=key)
        actor = self._actor(by)
        rows = await self._ask(
            lambda on: Access(self.store).rows(on, "revoke_key", key, actor, keep_admin)
        )
        if not rows:
            found = [each for each in await self.keys() if key in (each.id, each.name)]
            if keep_admin and found:
                raise LastAdmin(f"key {key!r}")
            raise KeyNotFound(key)
        return [row["id"] for row in rows]

    async def check_key(self, secret: str) -> Admitted | None:
        """Whom a key lets in; None for one that is unknown, expired or revoked."""
        given = Secret.read(secret)
        if given is None:
            return None
        access = Access(self.store)
        row = await self._ask(lambda on: access.row(on, "authenticate_key", given.id))
        if row is None or not given.fits(row["secret_hash"]):
            return None
        if row["is_stale"]:
            await self._ask(lambda on: access.rows(on, "touch_key", given.id))
        return Admitted(name=row["name"], scopes=frozenset(row["scopes"]), tenant=row["tenant"])

    async def first_key(self) -> str | None:
        """A key that may do everything, where there is neither a key nor a person yet."""
        made = Secret.new()
        row = await self._ask(
            lambda on: Access(self.store).row(on, "create_first_key", made.id, FIRST, made.hash),
            again=False,
        )
        return None if row is None else made.key

    async def _expect_guarded(self, tenant: str) -> None:
        """Raise unless row level security keeps tenants apart, and this login can come under it."""
        schema = self.store.schema
        found = await self._ask(lambda on: read_role_rights(on, schema))
        if found is None or not found.is_secured:
            raise TenantUnguarded(tenant)
        confined = TenantScope(tenant, confined=True)

        async def take_role(on: Executor) -> None:
            await confined.ask(on, self.store, _nothing)

        try:
            await self._ask(lambda on: in_transaction(on, take_role, is_ours=True))
        except Exception as error:
            if not errors.is_refused(error.__cause__ or error):
                raise
            app = roles(schema).app
            raise RolesUnfit(
                f"The role {found.role} cannot become {app}, as which calls for a tenant are made.",
                await self._grant(app, found.role),
            ) from error

    async def _grant(self, app: str, role: str) -> str:
        """What lets a role become another: from 16 on, who made that one may not by itself."""
        version = await self._ask(
            lambda on: on.fetchval(self.store.statement("get_server_version"))
        )
        how = " WITH SET TRUE" if version >= SET_GRANTED else ""
        return f"GRANT {quote(app)} TO {quote(role)}{how};"


async def _nothing(on: Executor) -> None:
    """To take a role is the question."""


def _scopes(scopes: Iterable[Scope], tenant: str | None) -> list[str]:
    chosen = list(dict.fromkeys([scopes] if isinstance(scopes, str) else scopes))
    known = ", ".join(SCOPES)
    if not chosen or any(each not in SCOPES for each in chosen):
        raise BadArgument("scopes", chosen, f"one or more of {known}")
    if tenant is not None and "admin" in chosen:
        raise Misuse(
            "A key for one tenant cannot have the scope admin, which is for all tenants.",
            "scopes",
        )
    return sorted(chosen, key=SCOPES.index)


def _length(setting: str, value: float | timedelta | None) -> float | None:
    if value is None:
        return None
    if not (length := seconds(setting, value)):
        raise BadArgument(setting, value, "more than 0 seconds, or None")
    return length


def _key(row: dict[str, Any]) -> Key:
    return Key(**row | {"scopes": tuple(row["scopes"])})
