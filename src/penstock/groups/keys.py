"""API keys for programs that use the service."""

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
from penstock.groups.arguments import check_name, seconds
from penstock.sql import quote, roles
from penstock.store import Executor, errors, read_role_rights
from penstock.store.access import Access

Scope = Literal["read", "enqueue", "operate", "admin", "on_behalf"]
Role = Literal["viewer", "operator", "admin"]

SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
ROLES: Final[dict[Role, frozenset[Scope]]] = {
    "viewer": frozenset({"read"}),
    "operator": frozenset({"read", "enqueue", "operate"}),
    # People act for themselves. Only keys act on behalf of others.
    "admin": frozenset({"read", "enqueue", "operate", "admin"}),
}


ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
_TEXT: Final = re.compile(r"pk_([0-9a-z]{8,32})_([A-Za-z0-9_-]{43})")


class Secret(NamedTuple):
    """A key: its public id, and a random text of 256 bits, of which only the hash is stored."""

    id: str
    text: str

    @classmethod
    def new(cls) -> Secret:
        return cls(secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES))

    @classmethod
    def read(cls, key: str) -> Secret | None:
        """Parse a key; return None if the text cannot be one."""
        match = _TEXT.fullmatch(key)
        return None if match is None else cls(*match.groups())

    @property
    def key(self) -> str:
        """The whole key, which is shown to its owner once."""
        return f"pk_{self.id}_{self.text}"

    @property
    def hash(self) -> bytes:
        """The hash that is stored. A random text needs neither a salt nor a slow hash."""
        return hash_of(self.text)

    def matches(self, stored_hash: bytes) -> bool:
        return hmac.compare_digest(self.hash, stored_hash)

    def __repr__(self) -> str:
        return f"Secret({self.id}, …)"


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


DAY_S: Final = 86_400.0
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}")
# From Postgres 16 on, a membership may lack the right to SET ROLE.
VERSION_WITH_SET_OPTION: Final = 160_000
FIRST_KEY_NAME: Final = "first"


class Key(Struct, frozen=True, kw_only=True):
    """An API key, without its secret. A key with a `tenant` has access to that tenant only."""

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
    """A new API key. `secret` is the key itself, and is shown only once."""

    key: Key
    secret: str

    def __repr__(self) -> str:
        return f"NewKey(key={self.key!r}, secret=…)"


class Admitted(Struct, frozen=True, kw_only=True):
    """The name, scopes and tenant of a valid key."""

    name: str
    scopes: frozenset[Scope]
    tenant: str | None


class KeyCalls(Calls):
    """The calls for API keys. `by` is the name that the audit records for a change."""

    async def create_key(
        self,
        name: str,
        *,
        scopes: Iterable[Scope],
        tenant: str | None = None,
        expires: float | timedelta | None = None,
        by: str | None = None,
    ) -> NewKey:
        """Create a key for a program that uses the service. Raises NameTaken.

            made = await app.create_key("ci", scopes=["read", "enqueue"], expires=90 * 86_400)
            made.secret                     # pk_…: not stored, and shown only once

        A key with a `tenant` sees only that tenant. It requires row level security.
        """
        check_name("name", name, NAME)
        chosen = _scopes(scopes, tenant)
        length = _length("expires", expires)
        if tenant is not None:
            await self._expect_guarded(tenant)
        made, actor = Secret.new(), self._actor(by)
        row = await self._execute(
            lambda on: Access(self.store).row(
                on, "create_key", made.id, name, made.hash, chosen, tenant, length, actor
            ),
            retry=False,
        )
        if row is None:
            raise NameTaken("key", name, f"free this one with `penstock keys revoke {name}`")
        return NewKey(key=_key(row), secret=made.key)

    async def keys(
        self, *, all: bool = False, after: str | None = None, limit: int | None = None
    ) -> Sequence[Key]:
        """List the valid keys, by name. With `all`, list revoked and expired keys, too.

        If you set a `limit`, pass the id of the last key as `after` for the next page.
        """
        client_scope.check_texts(after=after)
        rows = await self._execute(
            lambda on: Access(self.store).rows(on, "list_keys", all, after, limit)
        )
        return [_key(row) for row in rows]

    async def get_key(self, key: str) -> Key:
        """Return a key by its id, or by its name while it is valid. Raises KeyNotFound."""
        client_scope.check_texts(key=key)
        row = await self._execute(lambda on: Access(self.store).row(on, "find_key", key))
        if row is None:
            raise KeyNotFound(key)
        return _key(row)

    async def rotate_key(
        self,
        key: str,
        *,
        overlap: float | timedelta = DAY_S,
        expires: float | timedelta | None = None,
        keep_admin: bool = False,
        by: str | None = None,
    ) -> NewKey:
        """Replace a key by a new one. The old key stays valid for the `overlap`, a day by default.

        The new key has the same name and scopes and, without `expires`, the same lifetime. With
        `keep_admin`, the call refuses to shorten the lifetime of the last key with the scope admin,
        unless a person has the role admin.
        """
        left, length = seconds("overlap", overlap), _length("expires", expires)
        old, made, actor = await self.get_key(key), Secret.new(), self._actor(by)
        row = await self._execute(
            lambda on: Access(self.store).row(
                on, "rotate_key", old.id, made.id, made.hash, length, left, actor, keep_admin
            ),
            retry=False,
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
        """Revoke a key by its id, or all keys of a name. Return the ids of the revoked keys.

        Services refuse a revoked key within five seconds. With `keep_admin`, the call refuses to
        revoke the last key with the scope admin, unless a person has the role admin. Another key
        counts only if it does not expire sooner.
        """
        client_scope.check_texts(key=key)
        actor = self._actor(by)
        rows = await self._execute(
            lambda on: Access(self.store).rows(on, "revoke_key", key, actor, keep_admin)
        )
        if not rows:
            valid = [other for other in await self.keys() if key in (other.id, other.name)]
            if keep_admin and valid:
                raise LastAdmin(f"key {key!r}")
            raise KeyNotFound(key)
        return [row["id"] for row in rows]

    async def check_key(self, secret: str) -> Admitted | None:
        """Return the name, scopes and tenant of a key.

        Return None if the key is unknown, expired or revoked.
        """
        secret_key = Secret.read(secret)
        if secret_key is None:
            return None
        access = Access(self.store)
        row = await self._execute(lambda on: access.row(on, "authenticate_key", secret_key.id))
        if row is None or not secret_key.matches(row["secret_hash"]):
            return None
        if row["is_stale"]:
            await self._execute(lambda on: access.rows(on, "touch_key", secret_key.id))
        return Admitted(name=row["name"], scopes=frozenset(row["scopes"]), tenant=row["tenant"])

    async def first_key(self) -> str | None:
        """Create a key with all scopes if there is neither a key nor a person yet.

        Return the key, or None if none was created.
        """
        made = Secret.new()
        row = await self._execute(
            lambda on: Access(self.store).row(
                on, "create_first_key", made.id, FIRST_KEY_NAME, made.hash
            ),
            retry=False,
        )
        return None if row is None else made.key

    async def _expect_guarded(self, tenant: str) -> None:
        """Raise an error unless calls for one tenant can be confined to that tenant.

        Row level security must be on, and this login must be able to switch to the role of apps.
        """
        schema = self.store.schema
        rights = await self._execute(lambda on: read_role_rights(on, schema))
        if rights is None or not rights.is_secured:
            raise TenantUnguarded(tenant)
        confined = TenantScope(tenant, confined=True)

        async def take_role(on: Executor) -> None:
            await confined.run(on, self.store, _nothing)

        try:
            await self._execute(lambda on: in_transaction(on, take_role, is_ours=True))
        except Exception as error:
            if not errors.is_refused(error.__cause__ or error):
                raise
            app, role = roles(schema).app, rights.role
            raise RolesUnfit(
                f"The role {role} cannot switch to the role {app}, which calls for one tenant "
                "need.",
                await self._grant(app, role),
            ) from error

    async def _grant(self, app: str, role: str) -> str:
        """Return the SQL that allows a role to switch to the role of apps.

        From Postgres 16 on, the creator of a role is a member of it, but may not switch to it.
        """
        version = await self._execute(
            lambda on: on.fetchval(self.store.statement("get_server_version"))
        )
        how = " WITH SET TRUE" if version >= VERSION_WITH_SET_OPTION else ""
        return f"GRANT {quote(app)} TO {quote(role)}{how};"


async def _nothing(on: Executor) -> None:
    """Do nothing: the caller only tests whether it can take a role."""


def _scopes(scopes: Iterable[Scope], tenant: str | None) -> list[str]:
    chosen = list(dict.fromkeys([scopes] if isinstance(scopes, str) else scopes))
    known = ", ".join(SCOPES)
    if not chosen or any(scope not in SCOPES for scope in chosen):
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
