"""What the role that asks may do, and what to do when Postgres refuses it something."""

from __future__ import annotations

from contextlib import suppress

import asyncpg
from msgspec import Struct

from penstock.errors import NotAllowed
from penstock.sql import quote, roles, statement
from penstock.store import failures
from penstock.store.pool import Executor


class Standing(Struct, frozen=True, kw_only=True):
    """A role before a schema."""

    schema: str
    role: str
    owner: str
    is_secured: bool
    """Whether row level security is on."""
    is_confined: bool
    """Whether it holds for this role: the owner is above it."""
    is_worker: bool
    is_app: bool

    @property
    def remedy(self) -> str:
        """What to do when it may not do something."""
        worker, app = roles(self.schema)
        owner = f"the owner of the schema, {self.owner}"
        if not self.is_secured:
            return (
                f"It has no right to that in the schema {self.schema}: log in as {owner}; or make "
                f"{worker} and {app} roles with rights again, with `penstock migrate --rls`."
            )
        works, enqueues = self._grant(worker), self._grant(app)
        if self.is_worker and self.is_app:
            return f"It is both a worker's and an app's; the rest is for {owner}."
        if self.is_worker:
            return (
                f"It is a worker's, a member of {worker}. To enqueue and to look at jobs it needs "
                f"`{enqueues}`, and then a tenant; settings are for {owner}."
            )
        if self.is_app:
            return (
                f"It is an app's, a member of {app}. A worker needs `{works}`; settings, and "
                f"commands that look at all tenants, are for {owner}."
            )
        return (
            f"It is a member neither of {worker} nor of {app}: run `{works}` for a worker, "
            f"`{enqueues}` for a program that enqueues, or log in as {owner}."
        )

    def _grant(self, role: str) -> str:
        return f"GRANT {quote(role)} TO {quote(self.role)};"


async def standing(on: Executor, schema: str) -> Standing | None:
    """The standing of the role that asks; None if there is no such schema."""
    told = statement("tell_standing", schema)
    row = await on.fetchrow(told, schema, *roles(schema))
    return None if row is None else Standing(schema=schema, **dict(row))


async def refusal(
    error: BaseException, schema: str, place: str, on: Executor | None = None
) -> NotAllowed:
    """A refusal of Postgres' in words. `on` is where the same role can still be asked."""
    found = None
    if on is not None:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            found = await standing(on, schema)
    if found is not None:
        return refusal_to(found, error, place)
    worker, app = roles(schema)
    remedy = _remedy_of_theirs(error, schema) or (
        f"Workers log in as a member of {worker}, programs that enqueue as one of {app}; all "
        "the rest is for the owner of the schema."
    )
    return NotAllowed(None, failures.message(error), remedy, place=place)


def refusal_to(found: Standing, error: BaseException, place: str) -> NotAllowed:
    """The error for a right that Postgres refused to a role whose rights are known."""
    remedy = _remedy_of_theirs(error, found.schema) or found.remedy
    return NotAllowed(found.role, failures.message(error), remedy, place=place)


def _remedy_of_theirs(error: BaseException, schema: str) -> str | None:
    function = failures.function_of_theirs(error, schema)
    if function is None:
        return None
    return (
        f"The function {function}, which is not Penstock's, asks for it: grant the right to this "
        "role, or make the function SECURITY DEFINER."
    )
