"""The page that shows what OpenAPI says, in a real browser."""

from pathlib import Path

import httpx
import pytest

from penstock import Penstock
from penstock.service import Service
from penstock.service.middleware import RequestCount
from tests.fixtures.browser import browsing
from tests.fixtures.service import serving
from tests.fixtures.until import until

# All that a shadow tree shows, and those within it.
TEXT = """
(() => { const all = (node) => [...node.querySelectorAll("*")].map((each) =>
    each.shadowRoot ? each.shadowRoot.textContent + all(each.shadowRoot) : "").join(" ");
  return all(document); })()
"""
ENTER = """
(() => { document.querySelector("input").value = KEY;
  document.querySelector("button").click(); return true; })()
"""


async def test_docs_page_shows_the_api_and_loads_only_its_own_files(
    app: Penstock, tmp_path: Path
) -> None:
    key = await app.create_key("reader", scopes=["read"])
    async with Service(app) as service, serving(service) as url, browsing(tmp_path) as page:
        await page.go(f"{url}/docs")
        await until(lambda: page.run("!document.querySelector('form').hidden"))
        await page.run(ENTER.replace("KEY", "'pk_nobody'"))
        refused = "document.querySelector('[role=alert]').textContent.includes('unknown')"
        await until(lambda: page.run(refused))
        await page.run(ENTER.replace("KEY", repr(key.secret)))

        async def shows_the_api() -> bool:
            text = str(await page.run(TEXT))
            return "/api/v1/jobs" in text and "durably stored" in text

        await until(shows_the_api)
        asked = await page.run("performance.getEntriesByType('resource').map((each) => each.name)")
        assert asked
        assert [each for each in asked if not each.startswith(f"{url}/")] == []


async def test_docs_page_says_that_the_server_is_full_and_recovers(
    app: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Service(app) as service, serving(service) as url, browsing(tmp_path) as page:
        with monkeypatch.context() as full:
            full.setattr(RequestCount, "is_full", True)
            await page.go(f"{url}/docs")
            told = "document.querySelector('[role=alert]').textContent.includes('is busy')"
            await until(lambda: page.run(told))
            assert await page.run("document.querySelector('form').hidden")
        await until(lambda: page.run("!document.querySelector('form').hidden"))
        assert await page.run("document.querySelector('[role=alert]').textContent") == ""


async def test_the_page_tells_nothing_itself_and_has_its_licence(service: Service) -> None:
    transport = httpx.ASGITransport(Service(service.asgi.state.runtime.app).asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        page = await http.get("/docs")
        assert page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        again = await http.get("/docs", headers={"if-none-match": page.headers["etag"]})
        assert again.status_code == 304
        assert (await http.get("/api/v1/openapi.json")).status_code == 401
        for name in ("docs.js", "rapidoc.js"):
            script = await http.get(f"/static/{name}")
            assert script.headers["content-type"].startswith("text/javascript")
    static = Path(__file__).parents[2] / "src" / "penstock" / "service" / "static" / "vendor"
    [library] = static.glob("*.js")
    assert library.stat().st_size < 1_000_000
    licence = library.with_name(library.name.replace(".min.js", ".LICENSE.txt"))
    assert "MIT License" in licence.read_text()
