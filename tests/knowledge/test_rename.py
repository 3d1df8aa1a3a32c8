"""Schemas of the queue and of its knowledge that somebody has renamed."""

from pathlib import Path

import pytest

from penstock import Penstock
from penstock.migrate import migrate
from penstock.sql import quote
from penstock_apps.knowledge.errors import TablesMissing, TablesRenamed
from penstock_apps.knowledge.knowledge import Knowledge
from penstock_apps.knowledge.search import Query
from tests.fixtures.database import Database, connected
from tests.knowledge.scene import Scene

FORMER = """
SELECT proname FROM pg_proc
 WHERE pronamespace = to_regnamespace(quote_ident($1))
   AND (prosrc ~ 'penstock_knowledge' OR proconfig::text ~ 'penstock_knowledge')
"""


@pytest.mark.parametrize("name", ["shop", 'my "shop"'])
async def test_renamed_knowledge_is_told_and_mended_by_migrating(
    knowledge_database: Database, objects: Path, tmp_path: Path, name: str
) -> None:
    url = knowledge_database.url
    own = f"{name}_knowledge"
    async with connected(knowledge_database.admin_url) as admin:
        await admin.execute(f"ALTER SCHEMA penstock RENAME TO {quote(name)}")
        await migrate(url, schema=name)
        knowledge = Knowledge(app := Penstock(url, schema=name))
        async with app:
            with pytest.raises(TablesMissing, match="rename that of its knowledge instead"):
                await knowledge.opened().__aenter__()
            await admin.execute(f"ALTER SCHEMA penstock_knowledge RENAME TO {quote(own)}")
            with pytest.raises(TablesRenamed):
                await knowledge.opened().__aenter__()
            assert await knowledge.renamed(app.opened_database) == {own: "penstock_knowledge"}

            done = await knowledge.migrate(app.opened_database)
            assert done == ["the rename from penstock_knowledge"]
            assert await knowledge.migrate(app.opened_database) == []
            assert await knowledge.renamed(app.opened_database) == {}
            assert not await admin.fetch(FORMER, own)
            async with knowledge.opened() as runtime:
                scene = Scene(knowledge, runtime, tmp_path / "files")
                library = knowledge.of(runtime, "acme")
                receipt = await scene.bring(library, {"a.txt": "The quick brown fox."})
                assert (await library.progress(source=receipt.source)).completed == 1
                [hit] = await library.search(Query("fox"))
                assert "quick" in hit.text
