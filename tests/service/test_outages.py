"""A database that is silent or gone, behind a server that is asked all the same."""

import asyncio

import httpx

from penstock import Penstock
from penstock.service import Bounds, Service
from tests.fixtures.database import Database
from tests.fixtures.proxy import Proxy
from tests.fixtures.service import OpenDoor, serving
from tests.fixtures.until import until

GREET = {"task": "greet", "args": {"name": "Ada"}}


def served(url: str, requests: int) -> tuple[Penstock, Service]:
    app = Penstock(url)

    @app.task(name="greet")
    async def greet(name: str) -> None: ...

    return app, Service(app, door=OpenDoor(), bounds=Bounds(requests=requests))


async def test_few_requests_wait_for_a_silent_database(database: Database, proxy: Proxy) -> None:
    app, service = served(proxy.url, requests=5)
    async with (
        service,
        serving(service) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=60) as http,
    ):
        assert (await http.post("/jobs", json=GREET)).status_code == 202
        proxy.swallow()
        waiting = [asyncio.create_task(http.post("/jobs", json=GREET)) for _ in range(5)]
        await until(lambda: service.request_count.is_full)
        refused = await asyncio.gather(*(http.post("/jobs", json=GREET) for _ in range(50)))
        assert {answer.status_code for answer in refused} == {503}
        assert (await http.get(f"{url}/livez")).status_code == 200

        proxy.heal()
        stored = await asyncio.gather(*waiting)
        assert {answer.status_code for answer in stored} == {202}
        assert (await http.post("/jobs", json=GREET)).status_code == 202
        assert len((await app.list()).jobs) == 7


async def test_enqueues_are_refused_until_the_database_is_back(
    database: Database, proxy: Proxy
) -> None:
    app, service = served(proxy.url, requests=50)
    async with (
        service,
        serving(service) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v1", timeout=60) as http,
    ):
        proxy.refuse()
        answers = await asyncio.gather(*(http.post("/jobs", json=GREET) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {503}
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}

        proxy.heal()
        assert (await http.post("/jobs", json=GREET)).status_code == 202
        assert len((await app.list()).jobs) == 1
