"""Bases that are large from a few chunks on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from penstock_apps.knowledge.chunk import Chunking
from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Recipe
from tests.fixtures.database import Database, connected
from tests.knowledge.scene import Scene

# So few are many here.
FROM = 3
LOCK = "SELECT pg_advisory_lock(hashtextextended('penstock knowledge indexes', 0))"
OTHER = Recipe(Embedding(dimensions=128), Chunking())


@pytest.fixture
def objects(objects: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_INDEX_FROM", str(FROM))
    return objects


def pages(number: int, about: str = "Foxes") -> dict[str, str | bytes]:
    return {f"{about} {n}.md": f"# {about} {n}\n\nNumber {n} of {about}." for n in range(number)}


async def indexes(scene: Scene) -> list[tuple[int, bool]]:
    """The editions that have one, and whether it is whole."""
    async with scene.runtime.tables.transaction_of_all() as on:
        return [(each.edition, each.is_complete) for each in await scene.runtime.indexes.all(on)]


async def edition(library: Library) -> int:
    return (await library.base("handbook")).edition.id


@asynccontextmanager
async def another_is_made(database: Database) -> AsyncIterator[None]:
    """Somebody else makes an index, for as long as the block lasts."""
    async with connected(database.direct_url) as on:
        await on.execute(LOCK)
        yield
