"""Knowledge behind PgBouncer: documents come in, and a large base gets its index all the same."""

from pathlib import Path

import pytest

from penstock import Penstock
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.search import Query
from tests.fixtures.database import Database
from tests.knowledge.conftest import knowledge_database, knowledge_template
from tests.knowledge.scene import Scene

__all__ = ["knowledge_database", "knowledge_template"]

PAGES: dict[str, str | bytes] = {f"{n}.md": f"# Page {n}\n\nThis is page {n}." for n in range(6)}


@pytest.mark.parametrize("goes_past", [False, True])
async def test_a_large_base_has_an_index(
    knowledge_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    goes_past: bool,
) -> None:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_STORAGE", str(tmp_path / "objects"))
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_INDEX_FROM", "3")
    past = knowledge_database.direct_url if goes_past else None
    knowledge = Knowledge(app := Penstock(knowledge_database.url, listen_url=past))
    async with app, knowledge.opened() as runtime:
        scene, library = (
            Scene(knowledge, runtime, tmp_path / "files"),
            knowledge.of(runtime, "acme"),
        )
        await scene.bring(library, PAGES)

        edition = (await library.base("handbook")).edition.id
        async with runtime.tables.transaction_of_all() as on:
            [index] = await runtime.indexes.all(on)
        assert (index.edition, index.is_complete) == (edition, True)
        [hit] = await library.search(Query("page 4", k=1, mode="vector"))
        assert hit.path == "4.md"

        await library.delete_base((await library.base("handbook")).id)
        await scene.drain()
        async with runtime.tables.transaction_of_all() as on:
            assert await runtime.indexes.all(on) == []
