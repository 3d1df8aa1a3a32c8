"""Jobs over HTTP: enqueue by name, look, filter, page, change."""

import asyncio
from typing import Any

import asyncpg
import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from penstock import Penstock
from penstock.service import Service
from penstock.service.enqueue import QueueNames
from penstock.service.middleware import Bounds
from tests.fixtures.dead import dead
from tests.fixtures.service import OpenDoor, asked


@pytest.fixture(autouse=True)
def tasks(app: Penstock) -> None:
    @app.task(name="greet")
    async def greet(name: str, times: int = 1) -> None: ...

    @app.task(name="clean", queue="slow")
    async def clean(path: str) -> None: ...


async def enqueued(http: httpx.AsyncClient, task: str = "greet", **options: Any) -> str:
    args = options.pop("args", {"name": "Ada"} if task == "greet" else {"path": "/tmp/x"})
    answer = await http.post("/jobs", json={"task": task, "args": args, "options": options})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def fields(answer: httpx.Response) -> list[str]:
    """The fields that a refusal names."""
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return [each["field"] for each in answer.json()["fields"]]


async def test_enqueued_job_is_found_at_its_location(http: httpx.AsyncClient) -> None:
    answer = await http.post("/jobs", json={"task": "greet", "args": {"name": "Ada", "times": 2}})

    assert answer.status_code == 202
    assert answer.json() == {"id": answer.json()["id"], "duplicate": False}
    job = (await http.get(f"http://localhost{answer.headers['location']}")).json()
    assert (job["id"], job["task"], job["state"]) == (answer.json()["id"], "greet", "ready")
    assert job["args"] == {"name": "Ada", "times": 2}
    assert job["requested_by"] == "tester"
    assert isinstance(job["id"], str)


async def test_under_a_prefix_the_location_is_right_as_well(service: Service) -> None:
    host = Starlette(routes=[Mount("/queue", service.asgi)])
    async with asked(host, "/queue") as http:
        answer = await http.post("/jobs", json={"task": "greet", "args": {"name": "Ada"}})
        wrong = await http.post("/jobs", content=b"{", headers={"content-type": "text/plain"})

        assert answer.headers["location"] == f"/queue/api/v1/jobs/{answer.json()['id']}"
        found = await http.get(f"http://localhost{answer.headers['location']}")
    assert found.status_code == 200
    assert wrong.status_code == 415


async def test_options_are_the_jobs(http: httpx.AsyncClient) -> None:
    job = await enqueued(
        http, queue="quick", priority=7, subject="order 7", tags=["a", "b"], meta={"x": [1]},
        delay=60, max_attempts=2, timeout=5.5, lane="l",
    )  # fmt: skip

    found = (await http.get(f"/jobs/{job}")).json()
    assert found["state"] == "scheduled"
    assert (found["queue"], found["priority"], found["lane"]) == ("quick", 7, "l")
    assert (found["subject"], found["tags"], found["meta"]) == ("order 7", ["a", "b"], {"x": [1]})
    assert (found["max_attempts"], found["timeout"]) == (2, 5.5)


# Each is asked of one service: a database for each would take longer than all of them.
ADA = {"name": "Ada"}
UNFIT: list[tuple[Any, list[str]]] = [
    ({"task": "greet", "args": {"name": 1}}, ["args.name"]),
    ({"task": "greet", "args": {"name": "Ada", "times": "x"}}, ["args.times"]),
    ({"task": "greet", "args": {}}, ["args.name"]),
    ({"task": "greet", "args": {"name": "Ada", "more": 1}}, ["args.more"]),
    ({"task": "greet", "args": {"name": "a\0b"}}, ["args.name"]),
    ({"task": "no such", "args": {}}, ["task"]),
    ({"task": "nosuch", "args": {}}, ["task"]),
    ({"args": {}}, ["task"]),
    ({"task": "greet", "args": []}, ["args"]),
    ({"task": "greet", "args": ADA, "options": {"priority": 101}}, ["options.priority"]),
    ({"task": "greet", "args": ADA, "options": {"qeue": "x"}}, ["options.qeue"]),
    ({"task": "greet", "args": ADA, "options": {"queue": "no spaces"}}, ["options.queue"]),
    ({"task": "greet", "args": ADA, "options": {"run_at": 5}}, ["options.run_at"]),
    ({"task": "greet", "args": ADA, "options": {"subject": "a\0"}}, ["options.subject"]),
    ({"task": "greet", "args": ADA, "options": {"meta": {"x": "\0"}}}, ["options.meta.x"]),
    ({"task": "greet", "args": ADA, "options": {"delay": True}}, ["options.delay"]),
    ({"task": "greet", "args": ADA, "options": {"priority": "5"}}, ["options.priority"]),
    ([], ["body"]),
    ("greet", ["body"]),
    (None, ["body"]),
]  # fmt: skip


async def test_unfit_job_is_refused_with_its_fields(http: httpx.AsyncClient) -> None:
    for body, named in UNFIT:
        answer = await http.post("/jobs", json=body)

        assert fields(answer) == named, body
        assert answer.json()["type"].startswith("urn:penstock:")
    assert (await http.get("/jobs")).json()["jobs"] == []


async def test_a_key_that_was_used_before_gives_the_job_of_then(http: httpx.AsyncClient) -> None:
    body = {"task": "greet", "args": {"name": "A"}, "options": {"idempotency_key": "k"}}
    first, second = await asyncio.gather(*(http.post("/jobs", json=body) for _ in range(2)))
    other = await http.post("/jobs", json={**body, "args": {"name": "B"}})

    assert first.json()["id"] == second.json()["id"]
    assert {first.json()["duplicate"], second.json()["duplicate"]} == {True, False}
    assert other.status_code == 409
    assert other.json()["type"] == "urn:penstock:idempotency-mismatch"
    assert first.json()["id"] in other.json()["detail"]


@pytest.mark.parametrize("path", ["/jobs", "/bulk/jobs"])
async def test_a_request_under_an_idempotency_key_is_done_once(
    http: httpx.AsyncClient, path: str
) -> None:
    def body(**options: Any) -> dict[str, Any]:
        one = {"task": "greet", "args": {"name": "A"}, "options": options}
        return one if path == "/jobs" else {"jobs": [one, one, one]}

    def ids(answer: httpx.Response) -> list[str]:
        assert answer.status_code == 202, answer.text
        found = answer.json()
        return [each["id"] for each in found.get("jobs", [found])]

    key = {"idempotency-key": "order-7"}
    first, second = await asyncio.gather(
        *(http.post(path, json=body(priority=1), headers=key) for _ in range(2))
    )
    again = await http.post(path, json=body(priority=1), headers=key)
    assert ids(first) == ids(second) == ids(again)
    number = len(set(ids(first)))
    assert number == (1 if path == "/jobs" else 3)
    assert len((await http.get("/jobs")).json()["jobs"]) == number

    # Another body is another request, if only an option or the number of jobs differs.
    shorter = body(priority=1) if path == "/jobs" else {"jobs": body(priority=1)["jobs"][:2]}
    others = [body(priority=2), body(), shorter][: 2 if path == "/jobs" else 3]
    for other in others:
        answer = await http.post(path, json=other, headers=key)
        assert answer.status_code == 409, answer.text
        assert answer.json()["type"] == "urn:penstock:idempotency-mismatch"
        assert answer.json()["about"]["key"] == "order-7"
    elsewhere = await http.post(path, json=body(priority=1, tenant="acme"), headers=key)
    assert not set(ids(elsewhere)) & set(ids(first))
    two = await http.post(path, json=body(idempotency_key="x"), headers=key)
    assert fields(two) == ["options.idempotency_key"]
    assert len((await http.get("/jobs")).json()["jobs"]) == 2 * number


async def test_an_idempotency_key_that_is_not_kept_is_refused(http: httpx.AsyncClient) -> None:
    key = {"idempotency-key": "order-7"}
    for path in ("/events", "/schedule/run?name=x", "/keys", "/dead/redrive", "/jobs/1/retry"):
        answer = await http.post(path, json={}, headers=key)
        assert answer.status_code == 422, path
        assert answer.json()["type"] == "urn:penstock:idempotency-key-not-taken"
    for value in ("", "two words", "x" * 256):
        body = {"task": "greet", "args": {"name": "A"}}
        answer = await http.post("/jobs", json=body, headers={"idempotency-key": value})
        assert fields(answer) == ["header.idempotency-key"], value
    assert (await http.get("/jobs", headers=key)).status_code == 200


async def test_callers_name_a_bounded_number_of_queues(app: Penstock) -> None:
    def job(queue: str) -> dict[str, Any]:
        return {"task": "greet", "args": {"name": "A"}, "options": {"queue": queue}}

    async with (
        Service(app, door=OpenDoor(), bounds=Bounds(queues=3)) as service,
        asked(service.asgi) as http,
    ):
        for queue in ("a", "b", "a", "default"):
            assert (await http.post("/jobs", json=job(queue))).status_code == 202
        many = await http.post("/bulk/jobs", json={"jobs": [job("c"), job("d")]})
        assert (many.status_code, many.json()["type"]) == (422, "urn:penstock:too-many-queues")
        assert (await http.post("/jobs", json=job("c"))).status_code == 202
        assert fields(await http.post("/jobs", json=job("d"))) == ["options.queue"]
        schedule = await http.put("/schedule?name=x", json={**job("d"), "cron": "0 6 * * *"})
        assert fields(schedule) == ["options.queue"]
        for queue in ("a", "default"):
            assert (await http.post("/jobs", json=job(queue))).status_code == 202
            assert (await http.patch(f"/queues/{queue}", json={"fair": True})).status_code == 200


async def test_callers_give_settings_to_a_bounded_number_of_queues(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    async with (
        Service(app, door=OpenDoor(), bounds=Bounds(queues=2)) as service,
        asked(service.asgi) as http,
    ):
        await app.set_queue("known", fair=True)
        for queue in ("a", "b", "a", "known", "default"):
            changed = await http.patch(f"/queues/{queue}", json={"paused": True})
            assert changed.status_code == 200, changed.text
        for path in ("/queues/c", "/queues/c/lanes?lane=acme"):
            many = await http.patch(path, json={"paused": True})
            assert (many.status_code, many.json()["type"]) == (422, "urn:penstock:too-many-queues")
        # Settings that there are may be changed however many other names are used.
        service.asgi.state.runtime.queue_names = QueueNames(app.tasks, 1)
        for queue in ("a", "b", "known"):
            assert (await http.patch(f"/queues/{queue}", json={"fair": True})).status_code == 200
    names = {row["name"] for row in await connection.fetch("SELECT name FROM penstock.queue")}
    assert names == {"a", "b", "known", "default"}


async def test_lists_filter_and_page_from_the_newest_on(http: httpx.AsyncClient) -> None:
    greets = [await enqueued(http, subject=f"s{n}", tags=["odd"] * (n % 2)) for n in range(5)]
    clean = await enqueued(http, "clean", args={"path": "/var/Éclair_100%"}, delay=60)

    async def ids(**query: Any) -> list[str]:
        answer = await http.get("/jobs", params=query)
        assert answer.status_code == 200, answer.text
        return [job["id"] for job in answer.json()["jobs"]]

    assert await ids() == [clean, *reversed(greets)]
    assert await ids(task="greet") == greets[::-1]
    assert await ids(queue="slow") == [clean]
    assert await ids(state="scheduled") == [clean]
    assert await ids(state=["ready", "scheduled"]) == [clean, *reversed(greets)]
    assert await ids(subject="s2") == [greets[2]]
    assert await ids(tag="odd") == [greets[3], greets[1]]
    assert await ids(tenant="nobody") == []
    assert await ids(text="éclair_100%") == [clean]
    assert await ids(text="ada", tag="odd") == [greets[3], greets[1]]

    first = (await http.get("/jobs", params={"task": "greet", "limit": 3})).json()
    rest = await http.get("/jobs", params={"task": "greet", "limit": 3, "after": first["after"]})
    assert [job["id"] for job in first["jobs"]] == greets[:1:-1]
    assert [job["id"] for job in rest.json()["jobs"]] == greets[1::-1]
    assert rest.json()["after"] is None


UNFIT_FILTERS = [
    ("limit=0", "query.limit"),
    ("limit=1001", "query.limit"),
    ("limit=x", "query.limit"),
    ("state=done", "query.state.0"),
    ("after=-1", "query.after"),
    ("after=99999999999999999999", "query.after"),
    ("batch=1e3", "query.batch"),
    ("text=", "query.text"),
    ("subject=a%00b", "subject"),
    ("text=a%00b", "text"),
    ("tenant=a%00b", "tenant"),
]


async def test_unfit_filter_is_refused_with_its_field(http: httpx.AsyncClient) -> None:
    for query, named in UNFIT_FILTERS:
        assert fields(await http.get(f"/jobs?{query}")) == [named], query


async def test_a_job_is_cancelled_retried_and_deleted(http: httpx.AsyncClient) -> None:
    job = await enqueued(http)

    cancelled = await http.post(f"/jobs/{job}/cancel")
    assert cancelled.json() == {"id": job, "state": "cancelled"}
    assert (await http.get(f"/jobs/{job}")).json()["reason"] == "requested by tester"
    assert (await http.post(f"/jobs/{job}/retry")).json() == {"id": job, "state": "ready"}
    assert (await http.delete(f"/jobs/{job}")).json() == {"id": job, "state": "deleted"}
    gone = await http.get(f"/jobs/{job}")
    assert (gone.status_code, gone.json()["type"]) == (404, "urn:penstock:job-not-found")


async def test_what_is_not_there_cannot_be_changed(http: httpx.AsyncClient) -> None:
    for verb in ("cancel", "retry", "unblock"):
        answer = await http.post(f"/jobs/4711/{verb}")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:penstock:job-not-found")
    assert (await http.delete("/jobs/4711")).status_code == 404


async def test_a_dead_letter_can_be_retried(
    http: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    [job] = await dead(connection, 1)

    assert (await http.post(f"/jobs/{job}/retry")).json()["state"] == "ready"


async def test_one_who_is_bound_to_a_tenant_is_told_nothing_about_all(service: Service) -> None:
    async with asked(service.asgi, tenant="acme") as bound:
        for path in ("/workers", "/overview", "/queues", "/limits", "/schedules"):
            answer = await bound.get(path)
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:penstock:not-allowed")


async def test_a_scope_that_is_missing_is_named(service: Service) -> None:
    async with asked(service.asgi, scopes="read") as reader:
        answer = await reader.post("/jobs", json={"task": "greet", "args": {"name": "A"}})

    assert (answer.status_code, answer.json()["type"]) == (403, "urn:penstock:not-allowed")
    assert "'enqueue'" in answer.json()["detail"]
