"""The routes of knowledge with hostile values in each place: no answer is a fault of ours."""

from typing import Any
from urllib.parse import quote, urlencode

import httpx

from tests.knowledge.http.conftest import document
from tests.knowledge.scene import Scene
from tests.service.test_fuzz import TEXTS, some

# Uploads take forms, and the tests of uploads send hostile ones.
LEFT_OUT = "/upload"


async def test_no_parameter_of_knowledge_is_a_fault_of_the_service(
    scene: Scene, server: str
) -> None:
    library = scene.knowledge.of(scene.runtime)
    receipt = await scene.bring(library, {"a.md": "# Water"})
    known = {
        "/knowledge-bases/": "handbook",
        "/knowledge-sources/": str(receipt.source),
        "/documents/": str(receipt.documents[0].id),
    }
    places = 0
    async with httpx.AsyncClient(base_url=server, timeout=60) as http:
        for path, operations in document()["paths"].items():
            told: dict[str, Any] = operations.get("get", {})
            if "knowledge" not in told.get("tags", ()) or LEFT_OUT in path:
                continue
            for parameter in told.get("parameters", ()):
                name, place = parameter["name"], parameter["in"]
                places += 1
                for value in some(TEXTS, places) if place in ("query", "path") else ():
                    text = quote(value, safe="", errors="surrogatepass")
                    own = next((each for at, each in known.items() if at in path), "1")
                    filled = path.replace("{id}", text if place == "path" else own)
                    asked = {name: value} if place == "query" else {}
                    query = urlencode(asked, errors="surrogatepass")
                    headers = {"accept": "application/json"}
                    answer = await http.get(f"{filled}?{query}", headers=headers)
                    assert answer.status_code < 500, (filled[:200], query, answer.text)
        # One id that no bigint holds would end the look that all who watch documents share.
        for kind in ("document", "knowledge-source"):
            answer = await http.get(f"/api/v1/live/{kind}/{'9' * 19}")
            assert answer.status_code == 422, answer.text
    assert places > 20
