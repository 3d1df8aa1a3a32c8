"""Many jobs in one call: all or none are enqueued; actions touch what was there, and no more."""

from typing import Any

import asyncpg
import httpx
import pytest

from penstock import Penstock
from penstock.service.routes import bulk as routes_bulk
from tests.fixtures.dead import dead
from tests.fixtures.worker import worker_of


@pytest.fixture(autouse=True)
def tasks(app: Penstock) -> None:
    @app.task(name="greet")
    async def greet(name: str) -> None: ...


async def enqueued(http: httpx.AsyncClient, number: int, **options: Any) -> list[str]:
    """Jobs, the newest last."""
    jobs = [{"task": "greet", "args": {"name": f"n{n}"}, "options": options} for n in range(number)]
    answer = await http.post("/bulk/jobs", json={"jobs": jobs})
    assert answer.status_code == 202, answer.text
    return [job["id"] for job in answer.json()["jobs"]]


async def act(http: httpx.AsyncClient, action: str, **given: Any) -> dict[str, Any]:
    answer = await http.post("/bulk/actions", json={"action": action, **given})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def states(http: httpx.AsyncClient, ids: list[str]) -> list[str]:
    found = (await http.post("/bulk/states", json={"ids": ids})).json()["states"]
    return [found[job]["state"] for job in ids if job in found]


async def test_a_thousand_jobs_are_enqueued_and_their_states_asked_for(
    http: httpx.AsyncClient,
) -> None:
    ids = await enqueued(http, 1000)

    assert len(set(ids)) == 1000
    assert await states(http, ids) == ["ready"] * 1000
    assert await states(http, ["4711471147"]) == []
    more = await http.post("/bulk/states", json={"ids": [*ids, "1"]})
    assert (more.status_code, more.json()["fields"][0]["field"]) == (422, "ids")


async def test_each_job_of_a_call_has_its_own_options(
    http: httpx.AsyncClient, app: Penstock
) -> None:
    jobs = [
        {"task": "greet", "args": {"name": "A"}},
        {"task": "greet", "args": {"name": "B"}, "options": {"priority": 7, "subject": "b"}},
        {"task": "greet", "args": {"name": "C"}, "options": {}},
    ]

    answer = await http.post("/bulk/jobs", json={"jobs": jobs})

    stored = [await app.get(job["id"]) for job in answer.json()["jobs"]]
    assert [(job.args["name"], job.priority, job.subject) for job in stored] == [
        ("A", 0, None),
        ("B", 7, "b"),
        ("C", 0, None),
    ]
    assert len({job.requested_by for job in stored}) == 1


async def test_if_one_does_not_fit_none_is_enqueued(http: httpx.AsyncClient) -> None:
    jobs = [{"task": "greet", "args": {"name": "A"}}, {"task": "greet", "args": {"name": 1}}]

    answer = await http.post("/bulk/jobs", json={"jobs": jobs})

    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["fields"]] == ["jobs.1.args.name"]
    assert (await http.get("/jobs")).json()["jobs"] == []


async def test_a_selection_is_changed_and_what_could_not_be_is_named(
    http: httpx.AsyncClient,
) -> None:
    ids = await enqueued(http, 3)

    tried = await act(http, "cancel", ids=[*ids, "4711"], dry_run=True)
    assert (tried["dry_run"], tried["matched"], tried["changed"]) == (True, 3, 0)
    assert await states(http, ids) == ["ready"] * 3

    done = await act(http, "cancel", ids=[*ids, "4711"])
    assert (done["changed"], done["left"]) == (3, {"4711": "missing"})
    assert await states(http, ids) == ["cancelled"] * 3
    again = await act(http, "delete", ids=ids)
    assert again["changed"] == 3
    assert await states(http, ids) == []


async def test_a_filter_is_frozen_by_its_dry_run(http: httpx.AsyncClient) -> None:
    meant = await enqueued(http, 3, subject="s")
    other = await enqueued(http, 1, subject="t")

    tried = await act(http, "cancel", filter={"subject": "s"}, dry_run=True)
    later = await enqueued(http, 2, subject="s")
    done = await act(http, "cancel", filter={"subject": "s"}, until=tried["until"])

    assert (tried["matched"], tried["is_exact"], tried["changed"]) == (3, True, 0)
    assert (done["matched"], done["changed"], done["after"]) == (3, 3, None)
    assert await states(http, meant) == ["cancelled"] * 3
    assert await states(http, [*other, *later]) == ["ready"] * 3


async def test_a_filter_of_many_is_worked_through_in_several_calls(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_bulk, "PAGE_SIZE", 2)
    monkeypatch.setattr(routes_bulk, "MAX_PAGES", 2)
    ids = await enqueued(http, 7, queue="q")

    first = await act(http, "cancel", filter={"queue": "q"})
    assert (first["changed"], first["is_exact"]) == (4, False)
    new = await enqueued(http, 1, queue="q")
    second = await act(
        http, "cancel", filter={"queue": "q"}, until=first["until"], after=first["after"]
    )

    assert (second["changed"], second["after"]) == (3, None)
    assert await states(http, ids) == ["cancelled"] * 7
    assert await states(http, new) == ["ready"]


async def test_dead_letters_are_retried_by_a_filter(
    http: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    failed = await dead(connection, 3, queue="q")
    waiting = await enqueued(http, 1, queue="q")

    done = await act(http, "retry", filter={"queue": "q"})

    assert (done["matched"], done["changed"]) == (3, 3)
    assert await states(http, [*failed, *waiting]) == ["ready"] * 4


async def test_bulk_retry_includes_completed_jobs_only_on_request(
    http: httpx.AsyncClient, app: Penstock, connection: asyncpg.Connection
) -> None:
    [done] = await enqueued(http, 1)
    await worker_of(app).drain()
    [failed] = await dead(connection, 1)

    acted = await act(http, "retry", ids=[done, failed])
    assert (acted["changed"], acted["left"]) == (1, {done: "completed"})
    acted = await act(http, "retry", filter={"task": "greet"})
    assert (acted["matched"], await states(http, [done])) == (0, ["completed"])

    acted = await act(http, "retry", ids=[done], completed=True)
    assert (acted["changed"], acted["left"]) == (1, {})
    await worker_of(app).drain()
    acted = await act(http, "retry", filter={"task": "greet", "state": ["completed"]})
    assert (acted["changed"], await states(http, [done])) == (1, ["ready"])


async def test_bulk_retry_in_several_calls_repeats_no_job(
    http: httpx.AsyncClient,
    app: Penstock,
    connection: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes_bulk, "PAGE_SIZE", 2)
    monkeypatch.setattr(routes_bulk, "MAX_PAGES", 1)
    failed = await dead(connection, 5, task="greet")
    changed, after, until = 0, None, None
    while True:
        given = {"until": until, "after": after} if after else {}
        done = await act(http, "retry", filter={"task": "greet"}, **given)
        changed += done["changed"]
        # What came back fails again meanwhile.
        await app.cancel_many(failed)
        after, until = done["after"], done["until"]
        if after is None:
            break
    assert changed == 5


async def test_a_filter_by_text_is_worked_through_too(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes_bulk, "PAGE_SIZE", 2)
    monkeypatch.setattr(routes_bulk, "MAX_PAGES", 1)
    ids = await enqueued(http, 3)
    tried = await act(http, "cancel", filter={"text": "N"}, dry_run=True)
    first = await act(http, "cancel", filter={"text": "N"}, until=tried["until"])
    second = await act(http, "cancel", filter={"text": "N"}, after=first["after"])
    assert (tried["matched"], first["changed"], second["changed"]) == (3, 2, 1)
    assert await states(http, ids) == ["cancelled"] * 3


async def test_a_place_that_no_call_gave_is_refused(http: httpx.AsyncClient) -> None:
    for filter, after in (
        ({"queue": "q"}, "x"),
        ({"queue": "q"}, "7"),
        ({"queue": "q"}, "7-7-7"),
        ({"queue": "q"}, "7-7-9999999-7"),
        ({"text": "q"}, "7-7"),
    ):
        given = {"action": "cancel", "filter": filter, "after": after}
        answer = await http.post("/bulk/actions", json=given)
        assert answer.status_code == 422, (filter, after, answer.text)


async def test_an_action_without_a_selection_or_with_two_is_refused(
    http: httpx.AsyncClient,
) -> None:
    for given, named in (
        ({}, "ids"),
        ({"ids": ["1"], "filter": {"queue": "q"}}, "ids"),
        ({"filter": {}}, "filter"),
        ({"filter": {"state": ["no"]}}, "filter.state.0"),
        ({"ids": []}, "ids"),
        ({"ids": ["0"]}, "ids.0"),
        ({"ids": ["1"], "dry_run": "yes"}, "dry_run"),
    ):
        answer = await http.post("/bulk/actions", json={"action": "cancel", **given})
        assert answer.status_code == 422, given
        assert answer.json()["fields"][0]["field"] == named
    unknown = await http.post("/bulk/actions", json={"action": "erase", "ids": ["1"]})
    assert unknown.json()["fields"][0]["field"] == "action"
