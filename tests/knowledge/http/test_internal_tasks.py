"""Nobody enqueues the tasks of knowledge over HTTP: its own routes do, after they have looked."""

import httpx
import pytest

from penstock import Penstock
from penstock.errors import UnknownTask
from penstock.groups.keys import SCOPES
from penstock_apps.knowledge import tasks

NAMES = [task.name for task in (*tasks.ISOLATED_TASKS, tasks.embed, *tasks.OTHER_TASKS)]


@pytest.fixture
def public(app: Penstock) -> str:
    """The name of the only task that callers over HTTP know."""

    @app.task(name="shop.report")
    async def report(document: int) -> None: ...

    return report.name


@pytest.mark.parametrize("scopes", ["enqueue", ",".join(SCOPES)])
async def test_tasks_of_knowledge_are_unknown_over_http(
    http: httpx.AsyncClient, app: Penstock, public: str, scopes: str
) -> None:
    http.headers["x-scopes"] = scopes
    for name in (*NAMES, "knowledge.nothing"):
        job = {"task": name, "args": {"document": 1}}
        asked = [
            ("task", await http.post("/jobs", json=job)),
            ("jobs.0.task", await http.post("/bulk/jobs", json={"jobs": [job]})),
        ]
        if "operate" in scopes:
            schedule = job | {"every": 60}
            asked.append(("task", await http.put("/schedule?name=mine", json=schedule)))
        for field, answer in asked:
            assert answer.status_code == 422, name
            assert answer.json()["type"] == "urn:penstock:does-not-fit"
            problem = str(UnknownTask(name, [public]))
            assert answer.json()["fields"] == [{"field": field, "problem": problem}]
    assert (await app.list()).jobs == ()
    assert list(await app.schedules()) == []


async def test_schedule_of_knowledge_keeps_its_arguments(
    http: httpx.AsyncClient, app: Penstock
) -> None:
    await app.sync_schedules()
    rarely = await http.put("/schedule?name=knowledge.sweep", json={"every": 600})
    assert rarely.status_code == 200
    for change in ({"args": {}}, {"options": {"tenant": "acme"}}):
        answer = await http.put("/schedule?name=knowledge.sweep", json=change)
        assert answer.status_code == 422
        assert [each["field"] for each in answer.json()["fields"]] == ["task"]


async def test_code_enqueues_tasks_of_knowledge(app: Penstock) -> None:
    for name in NAMES:
        assert app.tasks.get(name).name == name
    job = await app.enqueue(app.tasks.get("knowledge.sweep"))
    assert (await app.get(job.id)).task == "knowledge.sweep"
