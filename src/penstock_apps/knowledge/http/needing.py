"""Bases that somebody may delete while documents come into them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock_apps.knowledge.errors import BaseDeleted, NotFound
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Base


@asynccontextmanager
async def needing(library: Library, base: Base) -> AsyncIterator[None]:
    """BaseDeleted for what is not found in the block because its base is gone."""
    try:
        yield
    except NotFound as error:
        async with library.transaction() as on:
            found = await library.runtime.bases.find(on, library.tenant, None, base.id)
        if found is None:
            raise BaseDeleted(base.name) from error
        raise
