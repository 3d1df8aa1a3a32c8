"""Jobs over HTTP: enqueue by name, look, filter, page, change."""

import asyncpg
import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from penstock import Penstock
from penstock.service import Service
from tests.fixtures.service import asked


@pytest.fixture(autouse=True)
def tasks(app: Penstock) -> None:
    @app.task(name="greet")
    async def greet(name: str, times: int = 1) -> None: ...

    @app.task(name="clean", queue="slow")
    async def clean(path: str) -> None: ...


async def enqueued(http: httpx.AsyncClient, task: str = "greet", **given: object) -> str:
    args = given.pop("args", {"name": "Ada"})
    answer = await http.post("/jobs", json={"task": task, "args": args, "options": given})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def test_a_job_is_enqueued_by_its_tasks_name_and_found_where_the_answer_says(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.post("/jobs", json={"task": "greet", "args": {"name": "Ada", "times": 2}})

    assert answer.status_code == 202
    assert answer.json() == {"id": answer.json()["id"], "duplicate": False}
    found = await http.get(f"http://localhost{answer.headers['location']}")
    job = found.json()
    assert (job["id"], job["task"], job["state"]) == (answer.json()["id"], "greet", "ready")
    assert job["args"] == {"name": "Ada", "times": 2}
    assert job["requested_by"] == "tester"
    assert isinstance(job["id"], str)


async def test_under_a_prefix_the_location_is_right_as_well(service: Service) -> None:
    host = Starlette(routes=[Mount("/queue", service.asgi)])
    async with asked(host, "/queue") as http:
        answer = await http.post("/jobs", json={"task": "greet", "args": {"name": "Ada"}})

        assert answer.headers["location"] == f"/queue/api/v1/jobs/{answer.json()['id']}"
        found = await http.get(f"http://localhost{answer.headers['location']}")
        assert found.status_code == 200
