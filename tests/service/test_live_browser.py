"""The JavaScript module in a real browser, on a page that allows its own origin's scripts alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from penstock import Penstock, task
from penstock.service import Service
from penstock.service.live.hub import Hub
from penstock.service.middleware import RequestCount
from penstock.service.server import HttpServer, bind_socket
from tests.fixtures.browser import Page, browsing
from tests.fixtures.live import KnownByName
from tests.fixtures.until import until

POLICY = "default-src 'none'; script-src 'self'; connect-src 'self' {others}"


@task
async def work() -> None: ...


class Site:
    """A site of somebody's, with the service under a prefix."""

    def __init__(self, service: Service, others: str) -> None:
        self._service = service
        self._others = others
        self.request_count = service.request_count
        self._web = Starlette(
            routes=[Route("/", self._page), Mount("/queue", service.asgi)],
        )

    async def _page(self, request: Request) -> Response:
        headers = {"content-security-policy": POLICY.format(others=self._others)}
        answer = Response("<!doctype html><title>Shop</title>", 200, headers, "text/html")
        answer.set_cookie("caller", "ada", samesite="strict", httponly=True)
        return answer

    def ask_to_stop(self) -> None:
        self._service.ask_to_stop()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._web(scope, receive, send)


@asynccontextmanager
async def site(app: Penstock, port: int = 0, others: str = "") -> AsyncIterator[tuple[int, Hub]]:
    """The site: its port, and who listens. Who comes is let in by a cookie or a header."""
    listening = bind_socket("127.0.0.1", port)
    async with Service(
        app, door=KnownByName(), ticket_secret="shared by two servers of the tests"
    ) as service:
        server = HttpServer(Site(service, others), listening)  # type: ignore[arg-type]
        running = asyncio.create_task(server.run())
        await server.listens()
        try:
            yield listening.getsockname()[1], service.asgi.state.runtime.hub
        finally:
            server.ask_to_stop()
            await running


WATCH = """
(async () => {
  const live = await import("%(base)s/static/penstock-live.js");
  globalThis.seen = []; globalThis.errors = [];
  const options = { base: "%(base)s", %(more)s
    onState: (one) => seen.push([one.subject, one.state?.state, one.final]),
    onError: (error) => errors.push([error.status, error.message]) };
  %(what)s
})()
"""


async def begin(page: Page, what: str, *, base: str = "/queue", more: str = "") -> None:
    await page.run(WATCH % {"base": base, "what": what, "more": more})


async def sees(page: Page, *states: str) -> list[list[Any]]:
    """Wait until the page has seen some states, in this order; all that it saw."""

    async def seen() -> Any:
        found = await page.run("seen")
        return found if [state for _, state, _ in found] == list(states) else None

    found: list[list[Any]] = await until(seen, what=f"the page to see {states}")
    return found


async def test_page_watches_through_outages_by_every_transport(
    app: Penstock, tmp_path: Path
) -> None:
    app.include(work)
    async with browsing(tmp_path / "browser") as page:
        job, batch = await app.enqueue(work), await app.open_batch()
        async with site(app) as (port, hub):
            await page.go(f"http://127.0.0.1:{port}/")
            await begin(page, f"watch = live.watch('job/{job.id}', options)")
            await sees(page, "ready")
            assert hub.listeners == 1
        async with app:
            await app.cancel(job)
        async with site(app, port) as (port, hub):
            # The server was away, and the end comes all the same, once.
            [_, end] = await sees(page, "ready", "cancelled")
            assert end == [f"job/{job.id}", "cancelled", True]

            await begin(page, "live.watch('job/999', options)")
            await until(lambda: page.run("errors.length"))
            [[status, told]] = await page.run("errors")
            assert (status, told) == (404, "There is no job 999.")

            job = await app.enqueue(work)
            await begin(page, f"live.watch('job/{job.id}', options)", more="token: 'ada',")
            await sees(page, "ready")
            assert hub.listeners == 1
            await app.cancel(job)
            await sees(page, "ready", "cancelled")

            job = await app.enqueue(work)
            await begin(page, f"live.watch('job/{job.id}', {{...options, transport: 'poll'}})")
            await sees(page, "ready")
            await until(lambda: hub.listeners == 0)
            await app.cancel(job)
            await sees(page, "ready", "cancelled")

            job = await app.enqueue(work)
            await begin(
                page,
                f"const all = live.connect(options); all.watch('job/{job.id}', options);"
                f"all.watch('batch/{batch.id}', options)",
            )
            await until(lambda: page.run("seen.length === 2"))
            assert hub.listeners == 1
        async with app:
            await app.cancel(job)
            await batch.close()
        async with site(app, port):
            await until(lambda: page.run("seen.length >= 4"))
            found = await page.run("seen")
            assert [f"job/{job.id}", "cancelled", True] in found
            assert found.count([f"job/{job.id}", "cancelled", True]) == 1


async def test_a_page_streams_again_once_a_full_server_has_room(
    app: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.include(work)
    job = await app.enqueue(work)
    async with browsing(tmp_path / "browser") as page, site(app) as (port, hub):
        await page.go(f"http://127.0.0.1:{port}/")
        with monkeypatch.context() as full:
            full.setattr(RequestCount, "is_full", True)
            full.setattr(RequestCount, "is_full_for_streams", True)
            await begin(page, f"live.watch('job/{job.id}', options)")
            asked = "performance.getEntriesByType('resource').filter(IS_LIVE).length"
            asked = asked.replace("IS_LIVE", "(one) => one.name.includes('/live/job/')")

            async def was_refused_often() -> bool:
                return int(await page.run(asked)) >= 5

            await until(was_refused_often, 60)
            assert await page.run("errors") == []
        await sees(page, "ready")
        await until(lambda: hub.listeners == 1)
        await app.cancel(job)
        await sees(page, "ready", "cancelled")


async def test_a_page_of_another_origin_watches_with_a_ticket(
    app: Penstock, tmp_path: Path
) -> None:
    app.include(work)
    job = await app.enqueue(work)
    async with browsing(tmp_path / "browser") as page, site(app) as (port, hub):
        away = f"http://localhost:{port}"
        async with site(app, others=f"{away} ws://localhost:{port}") as (here, _):
            await page.go(f"http://127.0.0.1:{here}/")
            async with httpx.AsyncClient(timeout=30, verify=False) as http:
                answer = await http.post(
                    f"{away}/queue/api/v1/live/tickets",
                    json={"subjects": [f"job/{job.id}"]},
                    headers={"x-caller": "ada"},
                )
            ticket = f"ticket: async () => '{answer.json()['ticket']}',"
            what = f"live.watch('job/{job.id}', {{...options, base: '{away}/queue'}})"
            await begin(page, what, more=ticket)
            await sees(page, "ready")
            assert hub.listeners == 1
            await app.cancel(job)
            await sees(page, "ready", "cancelled")


async def test_the_module_may_be_kept_and_imported_anywhere(app: Penstock) -> None:
    async with site(app) as (port, _), httpx.AsyncClient(timeout=30, verify=False) as http:
        url = f"http://127.0.0.1:{port}/queue/static/penstock-live.js"
        answer = await http.get(url)
        again = await http.get(url, headers={"if-none-match": answer.headers["etag"]})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "max-age" in answer.headers["cache-control"]
    assert answer.headers["access-control-allow-origin"] == "*"
    assert again.status_code == 304
