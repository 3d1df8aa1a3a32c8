"""Run statements on connections of other drivers as on connections of asyncpg.

An adapter runs single statements: it takes SQL and parameters, and returns rows as mappings. The
caller and the caller's library begin and end transactions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import asyncpg

from penstock.store.drivers.adapter import Adapter, drive

if TYPE_CHECKING:
    from penstock.store.connection import Executor

__all__ = ["Adapter", "adapt", "drive", "is_in_transaction"]

Manner = Literal["async", "blocking"]

# Each library's connections are adapted by the module of the same name.
LIBRARIES = ("psycopg", "sqlalchemy", "django")


def adapt(connection: Any, manner: Manner = "async") -> Executor:
    """Return an executor for the connection.

    Raises TypeError if the driver is not supported, or if the connection is blocking where `manner`
    asks for an async one, or the reverse.
    """
    roots = {kind.__module__.partition(".")[0] for kind in type(connection).__mro__}
    for library in LIBRARIES:
        if library in roots:
            adapter = import_module(f"{__name__}.{library}").adapt(connection)
            return _checked(adapter, connection, manner)
    if manner == "async" and hasattr(connection, "fetchrow"):
        executor: Executor = connection
        return executor
    raise TypeError(_refusal(connection, manner))


async def is_in_transaction(on: Executor) -> bool:
    """Return whether the connection is in a transaction that the caller will end."""
    if isinstance(on, Adapter):
        return await on.is_in_transaction()
    # A pool of asyncpg has a connection's methods, but may use another connection for each call.
    return not isinstance(on, asyncpg.Pool) and on.is_in_transaction()


def _checked(adapter: Adapter | None, connection: Any, manner: Manner) -> Adapter:
    if adapter is None or adapter.manner != manner:
        raise TypeError(_refusal(connection, manner))
    return adapter


def _refusal(connection: Any, manner: Manner) -> str:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if manner == "async":
        return (
            f"A {kind} cannot be awaited. This takes a connection of asyncpg, an async one of "
            "psycopg, or an AsyncConnection or AsyncSession of SQLAlchemy; blocking ones are for "
            "app.sync.inside(…), and in handlers for ctx.sync."
        )
    return (
        f"A {kind} is no blocking connection. This takes a connection of psycopg, a Connection "
        "or Session of SQLAlchemy on psycopg, or Django's connection; async ones are for "
        "app.inside(…), and in handlers for ctx itself."
    )
