"""A session that holds an old snapshot, as a long report or a forgotten transaction does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock import hosts


@asynccontextmanager
async def held(url: str) -> AsyncIterator[None]:
    """Nothing that dies from now on can be cleaned up."""
    other = await hosts.connect(url)
    try:
        async with other.transaction(isolation="repeatable_read"):
            await other.fetchval("SELECT pg_current_xact_id()")
            yield
    finally:
        await other.close()
