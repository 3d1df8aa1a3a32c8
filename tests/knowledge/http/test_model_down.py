"""Search while the model of a base cannot be asked."""

import httpx
import pytest

from penstock_apps.knowledge.embed import Embedding
from penstock_apps.knowledge.library import Library
from penstock_apps.knowledge.store.bases import Recipe
from tests.knowledge.fixtures.models import Fault, Models
from tests.knowledge.scene import Scene

BUSY = Fault(503, {"Retry-After": "7"})


async def test_search_falls_back_to_words_while_a_model_is_down(
    scene: Scene, library: Library, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async with Models() as models:
        recipe = Recipe(Embedding("openai", "words", 64, base_url=models.base_url))
        remote = await library.make_base("remote", recipe)
        await scene.add(library, {"gates.txt": "The gate lets the water go."}, base=remote)
        await scene.bring(library, {"weirs.txt": "A weir holds the water back."}, base="local")
        models.fail(BUSY, times=2)

        query = "/search?q=water&tenant=acme"
        answer = await http.get(f"{query}&base=remote")
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "7"
        assert "busy" in answer.json()["detail"]

        found = (await http.get(query)).json()["hits"]
        assert {each["path"] for each in found} == {"gates.txt", "weirs.txt"}
        assert "A search in remote of the tenant" in caplog.text
        assert len(models.calls) == 3
