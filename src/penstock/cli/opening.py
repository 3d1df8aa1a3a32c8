"""Open an app for a command, with a clear message when its database cannot be used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg

from penstock.app import Penstock
from penstock.cli.commands import CommandError
from penstock.store import failures


@asynccontextmanager
async def opened(app: Penstock) -> AsyncIterator[None]:
    """The app, open; closed in any case."""
    try:
        await app.open()
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise CommandError(_explained(app, error)) from error
    try:
        yield
    finally:
        await app.close()


def _explained(app: Penstock, error: Exception) -> str:
    place = _place(app.database.url)
    if isinstance(error, asyncpg.PostgresError) and not failures.is_lost(error):
        return f"{place} refuses: {error}."
    why = str(error) or "it did not answer in time"
    return f"{place} cannot be reached: {why}. Is it running, and is the address right?"


def _place(url: str | None) -> str:
    """The database without what may be a password."""
    if url is None:
        return "The embedded Postgres"
    parts = urlsplit(url)
    host = parts.hostname or "the local socket"
    return f"The database {parts.path.lstrip('/')} on {host}:{parts.port or 5432}"
