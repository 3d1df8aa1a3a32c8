"""Batches, workflows, dead letters, schedules, queues, lanes, limits, workers, events over HTTP."""

import json
from typing import Any

import asyncpg
import httpx
import pytest

from penstock import Penstock, Unique, Workflow
from tests.fixtures.dead import dead
from tests.fixtures.worker import worker_of
from tests.insights.rows import lease


@pytest.fixture(autouse=True)
def tasks(app: Penstock) -> None:
    @app.task(name="greet")
    async def greet(name: str) -> None: ...


async def asked_for(http: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_batch_is_looked_at_closed_cancelled_and_retried(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    greet = app.tasks.get("greet")
    batch = await app.open_batch("letters")
    await batch.enqueue_many([greet.prepare("A"), greet.prepare("B")])

    assert (await asked_for(http, f"/batches/{batch.id}"))["state"] == "open"
    closed = (await http.post(f"/batches/{batch.id}/close")).json()
    assert (closed["id"], closed["state"], closed["total"]) == (batch.id, "running", 2)
    assert (await http.post(f"/batches/{batch.id}/cancel")).json() == {"changed": 2}
    assert (await http.post(f"/batches/{batch.id}/retry")).status_code == 200
    found = await asked_for(http, "/batches", name="letters")
    assert [each["id"] for each in found["batches"]] == [batch.id]
    assert (await asked_for(http, "/batches", name="others"))["batches"] == []
    listed = await asked_for(http, "/jobs", batch=batch.id)
    assert len(listed["jobs"]) == 2
    for path in ("", "/close", "/cancel", "/retry"):
        missing = await http.request("POST" if path else "GET", f"/batches/4711{path}")
        assert missing.json()["type"] == "urn:penstock:batch-not-found", path


async def test_a_workflow_is_looked_at_cancelled_and_retried(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    greet, flow = app.tasks.get("greet"), Workflow("two")
    flow.add(greet.prepare("B"), after=flow.add(greet.prepare("A")))
    started = await app.start_workflow(flow)

    found = await asked_for(http, f"/workflows/{started.id}")
    assert [step["state"] for step in found["steps"]] == ["ready", "blocked"]
    blocked = found["steps"][1]["id"]
    assert (await http.post(f"/jobs/{blocked}/unblock")).json()["state"] == "ready"
    assert (await http.post(f"/workflows/{started.id}/cancel")).json() == {"changed": 2}
    assert (await http.post(f"/workflows/{started.id}/retry")).json()["changed"] >= 1
    listed = await asked_for(http, "/workflows")
    assert [each["id"] for each in listed["workflows"]] == [started.id]
    for path in ("", "/cancel", "/retry"):
        missing = await http.request("POST" if path else "GET", f"/workflows/4711{path}")
        assert missing.json()["type"] == "urn:penstock:workflow-not-found", path


async def test_dead_letters_are_listed_summed_up_redriven_and_purged(
    http: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    ids = await dead(connection, 5, task="greet")
    others = await dead(connection, 2, task="clean", queue="slow")

    first = await asked_for(http, "/dead", task="greet", limit=3)
    rest = await asked_for(http, "/dead", task="greet", limit=3, after=first["after"])
    assert [job["id"] for job in (*first["jobs"], *rest["jobs"])] == ids[::-1]
    groups = (await asked_for(http, "/dead/summary"))["groups"]
    assert [(group["task"], group["number"]) for group in groups] == [("greet", 5), ("clean", 2)]
    one = await http.post("/dead/redrive", json={"ids": [ids[0]]})
    assert one.json()["number"] == 1
    many = await http.post("/dead/redrive", json={"filter": {"task": "greet"}, "limit": 2})
    assert many.json()["number"] == 2
    purged = await http.post("/dead/purge", json={"filter": {"queue": "slow"}})
    assert purged.json()["number"] == 2
    left = [job["id"] for job in (await asked_for(http, "/dead"))["jobs"]]
    assert len(left) == 2
    assert not {*left} & {*others}
    for wrong in ({}, {"ids": ["1"], "filter": {"task": "x"}}, {"filter": {}}):
        answer = await http.post("/dead/purge", json=wrong)
        assert (answer.status_code, answer.json()["fields"][0]["field"]) == (422, "ids"), wrong


async def test_a_schedule_is_made_changed_run_paused_and_removed(http: httpx.AsyncClient) -> None:
    name = {"name": "täglich/greeting"}
    wanted = {"task": "greet", "args": {"name": "A"}, "cron": "0 6 * * *"}

    made = await http.put("/schedule", params=name, json=wanted)
    assert made.status_code == 200, made.text
    changed = await http.put("/schedule", params=name, json={"cron": "0 7 * * *"})
    assert changed.json()["cron"] == "0 7 * * *"
    assert (await asked_for(http, "/schedule", **name))["task"] == "greet"
    ran = await http.post("/schedule/run", params=name)
    assert ran.status_code == 202
    assert (await http.get(f"http://localhost{ran.headers['location']}")).status_code == 200
    assert (await http.post("/schedule/pause", params=name)).status_code == 204
    assert (await http.post("/schedule/resume", params=name)).status_code == 204
    listed = (await asked_for(http, "/schedules"))["schedules"]
    assert [each["name"] for each in listed] == ["täglich/greeting"]
    assert (await asked_for(http, "/schedule/fires", **name))["fires"] is not None
    unfit = await http.put("/schedule", params=name, json={"cron": "never"})
    assert unfit.status_code == 422
    misfit = await http.put("/schedule", params=name, json={**wanted, "args": {"name": 1}})
    assert misfit.json()["fields"][0]["field"] == "args.name"
    odd = await http.put("/schedule", params=name, json={**wanted, "task": "\x8c"})
    assert (odd.status_code, odd.json()["fields"][0]["field"]) == (422, "task")
    assert (await http.delete("/schedule", params={"name": "a b"})).status_code == 422
    assert (await http.delete("/schedule", params=name)).json() == {"removed": True}
    gone = await http.get("/schedule", params=name)
    assert (gone.status_code, gone.json()["type"]) == (404, "urn:penstock:schedule-not-found")


async def stored_request(app: Penstock, name: str) -> Any:
    """What a schedule enqueues, as its row has it."""
    pool = await app.pool()
    return json.loads(
        await pool.fetchval("SELECT request::text FROM penstock.schedule WHERE name = $1", name)
    )


async def test_what_a_change_of_a_schedule_leaves_out_stays(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    options = {"queue": "mail", "priority": 7, "tags": ["a"], "meta": {"k": 1}, "timeout": 5.0}
    whole = {"task": "greet", "args": {"name": "Ada"}, "cron": "0 6 * * *", "options": options}
    name = {"name": "daily"}

    async def change(**changes: Any) -> dict[str, Any]:
        before = await stored_request(app, "daily")
        answer = await http.put("/schedule", params=name, json=changes)
        assert answer.status_code == 200, answer.text
        after = await stored_request(app, "daily")
        parts = sorted(before.keys() | after.keys())
        return {part: after.get(part) for part in parts if before.get(part) != after.get(part)}

    assert (await http.put("/schedule", params=name, json=whole)).status_code == 200
    by_another = {"x-name": "another"}
    assert await change(task="greet") == {}
    assert await change(options={"priority": 3}) == {"priority": 3}
    assert await change(task="greet", options={"priority": None}) == {"priority": None}
    assert await change(args={"name": "Bo"}) == {"args": {"name": "Bo"}}
    assert await change(cron="0 7 * * *") == {}
    http.headers.update(by_another)
    assert await change(options={"tags": ["b"]}) == {"tags": ["b"]}
    assert await change(args={"name": "Cy"}) == {"args": {"name": "Cy"}, "requested_by": "another"}

    for wrong in ({"args": {"name": 1}}, {"task": "unknown"}, {"options": {"priority": 1000}}):
        assert (await http.put("/schedule", params=name, json=wrong)).status_code == 422
    new = await http.put("/schedule", params={"name": "new"}, json={"args": {"name": "A"}})
    assert (new.status_code, new.json()["fields"][0]["field"]) == (422, "task")


async def test_changed_schedule_keeps_options_set_in_code(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    greet = app.tasks.get("greet").options(
        limits=["mail:{name}"], unique=Unique(key="{name}"), tenant="acme"
    )
    await app.set_schedule("hourly", greet.prepare("Ada"), every=3600)
    before = await stored_request(app, "hourly")

    answer = await http.put(
        "/schedule", params={"name": "hourly"}, json={"options": {"queue": "slow"}}
    )
    assert answer.json()["tenant"] == "acme"
    assert await stored_request(app, "hourly") == {**before, "queue": "slow"}


async def test_queues_and_lanes_are_set_and_listed(http: httpx.AsyncClient) -> None:
    await http.post(
        "/jobs", json={"task": "greet", "args": {"name": "A"}, "options": {"lane": "a/b"}}
    )

    paused = await http.patch("/queues/default", json={"paused": True, "late_after": 5})
    assert (paused.json()["paused"], paused.json()["late_after"]) == (True, 5)
    found = await asked_for(http, "/queues")
    assert [queue["name"] for queue in found["queues"]] == ["default"]
    windows = {"open": ["mon-fri 22:00-06:00"], "timezone": "Europe/Berlin"}
    lane = await http.patch("/queues/default/lanes", params={"lane": "a/b"}, json={"weight": 3})
    assert lane.json()["weight"] == 3
    assert (await http.patch("/queues/x", json={"windows": windows})).status_code == 200
    unfit = await http.patch("/queues/x", json={"windows": {"open": ["noon"]}})
    assert unfit.status_code == 422
    assert len((await asked_for(http, "/queues/default/lanes"))["lanes"]) == 1
    settings = await asked_for(http, "/queues/default/lane-settings")
    assert ([each["lane"] for each in settings["lanes"]], settings["after"]) == (["a/b"], None)
    page = await asked_for(http, "/queues/default/lane-settings", limit=1)
    assert page["after"] == "a/b"
    removed = await http.delete("/queues/default/lanes", params={"lane": "a/b"})
    assert removed.json() == {"removed": True}


async def test_queues_are_listed_page_by_page(app: Penstock, http: httpx.AsyncClient) -> None:
    greet = app.tasks.get("greet")
    for number in range(3):
        await app.enqueue(greet.options(queue=f"ready-{number}"), "A")
        await app.enqueue(greet.options(queue=f"scheduled-{number}", delay=3600), "A")
        await app.set_queue(f"set-{number}", fair=True)
    async with worker_of(app, ["idle", "ready-0"]):
        whole = await asked_for(http, "/queues")
        names = [each["name"] for each in whole["queues"]]
        assert names == sorted(names)
        assert (len(names), whole["after"]) == (10, None)
        paged: list[str] = []
        after: dict[str, str] = {}
        settings = 0
        for _ in range(10):
            page = await asked_for(http, "/queues", limit="2", **after)
            paged += [each["name"] for each in page["queues"]]
            assert {each["name"] for each in page["settings"]} <= set(paged)
            settings += len(page["settings"])
            if page["after"] is None:
                break
            after = {"after": page["after"]}
        assert (paged, settings) == (names, 3)


async def test_queue_patch_writes_the_named_fields_only(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    resumed = await http.patch("/queues/mail", json={"paused": False})
    assert (resumed.status_code, resumed.json()["paused"]) == (200, False)
    assert list(await app.queue_settings()) == []
    assert (await app.audit()).entries == ()

    await app.set_queue("mail", fair=True, by="ada")
    for paused in (True, False):
        told = await http.patch("/queues/mail", json={"paused": paused})
        assert (told.json()["paused"], told.json()["fair"]) == (paused, True)
    assert [entry.action for entry in (await app.audit()).entries] == [
        *("resume", "pause", "set_queue")
    ]
    # Done whole or not at all.
    wrong = await http.patch("/queues/mail", json={"paused": True, "lane_key": "colour"})
    assert wrong.status_code == 422
    assert await app.paused() == []
    null = await http.patch("/queues/mail", json={"paused": None})
    assert (null.status_code, null.json()["fields"][0]["field"]) == (422, "paused")


async def test_limits_are_set_listed_and_taken_back(http: httpx.AsyncClient) -> None:
    key = {"key": "openai/gpt"}

    made = await http.put("/limits", params=key, json={"slots": 3, "rate": "100/minute"})
    assert made.json()["slots"] == 3
    assert [each["key"] for each in (await asked_for(http, "/limits"))["limits"]] == ["openai/gpt"]
    unfit = await http.put("/limits", params=key, json={"rate": "often"})
    assert (unfit.status_code, unfit.json()["fields"][0]["field"]) == (422, "rate")
    assert (await http.put("/limits", params=key, json={})).status_code == 422
    assert (await http.delete("/limits", params=key)).json() == {"removed": True}


async def test_workers_and_the_overview_show_what_runs(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    async with worker_of(app, "default", name="w1"):
        found = (await asked_for(http, "/workers"))["workers"]
        overview = await asked_for(http, "/overview")

    assert [each["name"] for each in found] == ["w1"]
    assert {"queues", "workers"} <= set(overview)


async def paged(http: httpx.AsyncClient, path: str, what: str, by: str, **query: Any) -> list[Any]:
    """All of a list, two at a time."""
    found: list[Any] = []
    after: dict[str, Any] = {}
    for _ in range(10):
        page = await asked_for(http, path, limit=2, **query, **after)
        assert len(page[what]) <= 2
        found += [each[by] for each in page[what]]
        if page["after"] is None:
            return found
        after = {"after": page["after"]}
    raise AssertionError(f"{path} has no end")


async def test_limits_workers_and_fires_are_listed_page_by_page(
    app: Penstock, http: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    for number in range(5):
        await app.set_limit(f"key-{number}", slots=number)
    assert await paged(http, "/limits", "limits", "key") == [f"key-{n}" for n in range(5)]
    for number in range(5):
        await lease(connection, f"worker-{number}", seconds=300)
    await lease(connection, "lost", seconds=0.01)
    names = await paged(http, "/workers", "workers", "name")
    assert names == [*(f"worker-{number}" for number in range(5)), "lost"]
    await app.set_schedule("daily", app.tasks.get("greet").prepare("A"), cron="0 6 * * *")
    ran = [(await app.run_schedule("daily")).id for _ in range(5)]
    fired = await paged(http, "/schedule/fires", "fires", "job", name="daily")
    assert fired == list(reversed(ran))


async def test_an_event_is_sent(http: httpx.AsyncClient) -> None:
    answer = await http.post("/events", json={"name": "paid", "payload": {"order": 7}})

    assert answer.status_code == 200
    unfit = await http.post("/events", json={"name": "paid", "payload": "\0"})
    assert unfit.status_code == 422


async def test_every_error_is_a_problem(http: httpx.AsyncClient) -> None:
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("GET", "/jobs/0", 422),
        ("GET", "/jobs/7", 404),
        ("PATCH", "/jobs/7", 405),
        ("GET", "/jobs/", 404),
        ("DELETE", "/jobs", 405),
    ):
        answer = await http.request(method, path)
        assert answer.status_code == status, (method, path)
        assert answer.headers["content-type"] == "application/problem+json", path
        assert answer.json()["status"] == status
        assert answer.json()["type"].startswith("urn:penstock:")
        assert ("allow" in answer.headers) == (status == 405)


async def test_internal_fault_hides_its_cause(
    app: Penstock, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(app.store, "get", broken)

    answer = await http.get("/jobs/7")

    assert (answer.status_code, answer.json()["type"]) == (500, "urn:penstock:fault")
    assert "secret" not in answer.text
