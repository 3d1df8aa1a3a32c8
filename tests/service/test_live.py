"""Who watches a subject is told its whole state, whenever it changes, over server-sent events."""

import asyncio
import re
import time
from typing import Any

import httpx
import pytest

from penstock import ConfigError, Penstock, task
from penstock.connect import scope
from penstock.service import Service
from penstock.service.auth import Caller
from penstock.service.live import hub as live_hub
from penstock.service.live import streams
from penstock.service.live.hub import Subject
from penstock.service.live.tickets import TICKET_LIFETIME_S, Tickets
from penstock.service.middleware import Bounds
from penstock.service.problems import Problem
from penstock.service.server import STOP_GRACE_S
from penstock.tasks import Context
from penstock_apps.knowledge.knowledge import Knowledge
from tests.fixtures.database import Database
from tests.fixtures.live import Address, Heard, hear, listened_to, order_of
from tests.fixtures.proxy import Proxy
from tests.fixtures.until import until
from tests.fixtures.worker import worker_of

_go: list[asyncio.Event] = []


@task
async def work(ctx: Context, name: str = "") -> str:
    ctx.progress(1, 4, "begun")
    await _go[-1].wait()
    return f"done {name}"


@task
async def quick(number: int) -> int:
    return number


@pytest.fixture(autouse=True)
async def tasks(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    app.include(work, quick)
    _go.append(asyncio.Event())
    monkeypatch.setitem(live_hub.POLL_INTERVALS, "queue", live_hub.PollInterval(0.1, 0.2))


async def first(server: Address, subject: str, **options: Any) -> Heard:
    """The present state alone."""
    return await hear(f"{server.live}/{subject}", until=lambda heard: bool(heard.events), **options)


async def test_a_job_is_told_from_its_present_state_to_its_end(app: Penstock) -> None:
    job = await app.enqueue(work, "it")
    heard = Heard()
    async with listened_to(app) as server, worker_of(app):
        listening = asyncio.create_task(hear(f"{server.live}/job/{job.id}", heard))
        await until(lambda: heard.events and heard.last["state"]["done"] == 1)
        assert heard.last["state"]["message"] == "begun"
        _go[-1].set()
        await listening
    assert heard.headers["content-type"].startswith("text/event-stream")
    assert heard.headers["cache-control"] == "no-store"
    assert heard.last["final"]
    assert heard.last["state"]["state"] == "completed"
    assert heard.last["state"]["result"] == "done it"
    assert heard.last_id == heard.last["version"]
    assert [event["final"] for event in heard.events].count(True) == 1
    moments = [order_of(event["version"]) for event in heard.events]
    assert moments == sorted(moments)


async def test_what_was_seen_is_not_told_again(app: Penstock) -> None:
    job = await app.enqueue(work)
    async with listened_to(app) as server:
        url = f"{server.live}/job/{job.id}"
        heard = await hear(url, until=lambda heard: bool(heard.events))
        again = Heard()
        again.last_id = heard.last_id
        listening = asyncio.create_task(hear(url, again))
        await until(lambda: again.retries)
        await app.cancel(job)
        await listening
        assert again.states == ["cancelled"]
        # EventSource comes back after the end, and is told to stay away.
        assert (await hear(url, again)).status == 204
        assert len(again.events) == 1


async def test_a_version_never_falls_and_another_state_has_another(app: Penstock) -> None:
    job = await app.enqueue(work)
    seen = []

    async def look() -> None:
        seen.append((await app.present("job", [job.id]))[job.id])

    await look()
    for change in (app.cancel, app.retry, app.cancel, app.retry):
        await change(job)
        await look()
    async with worker_of(app):
        await until(lambda: look_until(app, job.id, "running"))
        await look()
        _go[-1].set()
        await app.wait(job, timeout=30)
    await look()
    versions = [present.version for present in seen]
    assert len(set(versions)) == len(versions)
    moments = [order_of(version) for version in versions]
    assert moments == sorted(moments)
    again = (await app.present("job", [job.id]))[job.id]
    assert again == seen[-1]


async def look_until(app: Penstock, job: str, state: str) -> bool:
    return (await app.get(job)).state == state


async def test_a_job_that_is_deleted_is_gone_and_its_stream_ends(app: Penstock) -> None:
    job = await app.enqueue(work)
    heard = Heard()
    async with listened_to(app) as server:
        listening = asyncio.create_task(hear(f"{server.live}/job/{job.id}", heard))
        await until(lambda: heard.events)
        await app.delete(job)
        await listening
    assert heard.last == {
        "subject": f"job/{job.id}",
        "version": None,
        "final": True,
        "state": None,
    }


async def test_asked_as_json_the_present_state_is_answered_once(app: Penstock) -> None:
    job = await app.enqueue(work)
    async with listened_to(app) as server, httpx.AsyncClient(timeout=30, verify=False) as http:
        headers = {"accept": "application/json", "x-caller": "ada"}
        answer = await http.get(f"{server.live}/job/{job.id}", headers=headers)
    heard = answer.json()
    assert answer.status_code == 200
    assert (heard["subject"], heard["final"]) == (f"job/{job.id}", False)
    assert heard["state"]["state"] == "ready"


async def test_queues_tenants_and_users_are_counted(app: Penstock) -> None:
    for number in range(3):
        await app.enqueue(
            quick.options(queue="mail", tenant="acme", requested_by="ada", priority=number), number
        )
    failed = await app.enqueue(quick.options(queue="mail", tenant="acme"), 4)
    await app.cancel(failed)
    async with listened_to(app) as server:
        heard = Heard()
        listening = asyncio.create_task(
            hear(f"{server.live}/queue/mail", heard, until=lambda heard: len(heard.events) == 2)
        )
        tenant = (await first(server, "tenant/acme")).last["state"]
        user = (await first(server, "user/ada")).last["state"]
        nobody = (await first(server, "user/nobody@example.com")).last["state"]
        empty = (await first(server, "queue/unheard-of")).last["state"]
        await app.pause("mail")
        await listening
    assert heard.events[0]["state"]["ready"] == {"number": 3, "is_exact": True}
    assert heard.last["state"]["paused_at"]
    assert (tenant["ready"], tenant["cancelled"], tenant["of"]) == (3, 1, 10_000)
    assert (user["name"], user["ready"], user["cancelled"]) == ("ada", 3, 0)
    assert nobody["ready"] == 0
    assert empty["ready"] == {"number": 0, "is_exact": True}


async def test_large_batch_sends_a_few_events_a_second_and_one_end(app: Penstock) -> None:
    heard = Heard()
    async with listened_to(app) as server:
        batch = await app.open_batch("many")
        listening = asyncio.create_task(hear(f"{server.live}/batch/{batch.id}", heard))
        await until(lambda: heard.events)
        began = time.monotonic()
        await batch.enqueue_many(quick.prepare(number) for number in range(500))
        await batch.close()
        async with worker_of(app, {"default": 100}):
            await listening
        seconds = time.monotonic() - began
    assert heard.last["state"]["completed"] == 500
    assert heard.last["state"]["state"] == "finished"
    assert [event["final"] for event in heard.events].count(True) == 1
    assert len(heard.events) <= 2 + seconds * 4
    assert len({event["version"] for event in heard.events}) == len(heard.events)


async def test_unknown_callers_and_subjects_get_no_stream(app: Penstock) -> None:
    job = await app.enqueue(work)
    async with listened_to(app) as server:
        assert (await first(server, f"job/{job.id}", caller=None)).status == 401
        assert (await first(server, "job/999")).status == 404
        assert (await first(server, "batch/999")).status == 404
        assert (await first(server, "job/x")).status == 422
        assert (await first(server, "planet/mars")).status == 422
        assert server.service.asgi.state.runtime.hub.listeners == 0


async def test_a_ticket_is_for_its_subjects_alone(app: Penstock) -> None:
    job, other = await app.enqueue(work), await app.enqueue(work)
    async with listened_to(app) as server, httpx.AsyncClient(timeout=30, verify=False) as http:
        asked = {"subjects": [f"job/{job.id}", "job/999"]}
        answer = await http.post(f"{server.live}/tickets", json=asked, headers={"x-caller": "ada"})
        assert answer.status_code == 201
        assert answer.json()["expires_in"] <= 60
        with_ticket = f"?ticket={answer.json()['ticket']}"
        heard = await first(server, f"job/{job.id}{with_ticket}", caller=None)
        assert heard.last["state"]["id"] == job.id
        assert heard.headers["access-control-allow-origin"] == "*"
        heard = await first(server, f"job/999{with_ticket}", caller=None)
        assert (heard.status, heard.headers["access-control-allow-origin"]) == (404, "*")
        assert (await first(server, f"job/{other.id}{with_ticket}", caller=None)).status == 403
        assert (await first(server, f"job/{job.id}{with_ticket}x", caller=None)).status == 401


def test_a_ticket_is_over_after_a_minute_and_needs_the_secret() -> None:
    caller = Caller(name="ada", scopes=frozenset({"read", "admin"}), tenant="acme")
    tickets = Tickets("a secret that two of our servers share")
    ticket = tickets.issue(caller, [Subject("job", "1")], now=1000.0).ticket

    admitted, subjects = Tickets("a secret that two of our servers share").admit(ticket, now=1059.0)
    assert (admitted.name, admitted.tenant) == ("ada", "acme")
    assert admitted.scopes == {"read"}
    assert subjects == {"job/1"}
    for late, others in (
        (1000.0 + TICKET_LIFETIME_S, tickets),
        (1001.0, Tickets("another secret, of somebody else's server")),
        (1.0, Tickets()),
    ):
        with pytest.raises(Problem) as refused:
            others.admit(ticket, now=late)
        assert refused.value.status == 401
    with pytest.raises(ConfigError, match="ticket_secret"):
        Tickets("short")


async def test_stream_goes_on_after_an_outage_of_the_database(
    database: Database, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "RETRY_DELAYS_S", (0.05,))
    async with Penstock(proxy.url) as app:
        app.include(work)
        job = await app.enqueue(work)
        heard = Heard()
        async with listened_to(app) as server:
            listening = asyncio.create_task(hear(f"{server.live}/job/{job.id}", heard))
            await until(lambda: heard.events)
            proxy.refuse()
            async with Penstock(database.url) as beside:
                await beside.cancel(job)
            refused = await first(server, f"job/{job.id}")
            assert (refused.events, refused.retries) == ([], 1)
            assert not listening.done()
            proxy.heal()
            await listening
    assert heard.states == ["ready", "cancelled"]


async def test_stopping_server_ends_its_streams_first(app: Penstock) -> None:
    job = await app.enqueue(work)
    heard = Heard()
    async with listened_to(app) as server:
        listening = asyncio.create_task(hear(f"{server.live}/job/{job.id}", heard))
        await until(lambda: heard.events)
        began = time.monotonic()
    await listening
    assert time.monotonic() - began < STOP_GRACE_S - 1, "nobody had to cut it"
    assert heard.states == ["ready"]
    assert heard.retries == 1


async def test_silent_stream_sends_comments_and_ends_after_its_longest(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "KEEPALIVE_S", 0.05)
    job = await app.enqueue(work)
    async with listened_to(app) as server:
        await hear(f"{server.live}/job/{job.id}", until=lambda heard: heard.comments >= 2)
        monkeypatch.setattr(streams, "MAX_CONNECTION_S", 0.1)
        heard = await hear(f"{server.live}/job/{job.id}")
    assert heard.states == ["ready"]


EVENTS = {"accept": "text/event-stream", "x-caller": "ada"}


async def is_told_to_come_back(http: httpx.AsyncClient, url: str) -> httpx.Response:
    """What an `EventSource` has to be answered so that it asks again."""
    answer = await http.get(url, headers=EVENTS)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert re.fullmatch(r"retry: \d+\n\n", answer.text), answer.text
    return answer


async def test_streams_open_while_requests_fill_the_server(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, has_begun = asyncio.Event(), asyncio.Event()
    get = app.store.get

    async def slow(*args: Any) -> Any:
        has_begun.set()
        await let_go.wait()
        return await get(*args)

    monkeypatch.setattr(app.store, "get", slow)
    job = await app.enqueue(work)
    async with (
        listened_to(app, bounds=Bounds(requests=1, openings=1)) as server,
        httpx.AsyncClient(timeout=30) as http,
    ):
        url = f"{server.live}/job/{job.id}"
        first_request = asyncio.create_task(
            http.get(f"{server.url}/api/v1/jobs/{job.id}", headers={"x-caller": "ada"})
        )
        await has_begun.wait()
        for headers in ({}, EVENTS):
            ordinary = await http.get(f"{server.url}/api/v1/jobs", headers=headers)
            assert ordinary.status_code == 503
        async with http.stream("GET", url, headers=EVENTS) as stream:
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith("retry: ")
            assert await anext(lines) == ""
            assert (await anext(lines)).startswith("id: ")
        let_go.set()
        assert (await first_request).status_code == 200


def test_routes_with_events_count_as_streams() -> None:
    app = Penstock("postgresql://nowhere/x")
    Knowledge(app)
    service = Service(app)
    accept = [(b"accept", b"text/event-stream")]
    for path, operations in service.asgi.openapi()["paths"].items():
        if "get" not in operations:
            continue
        given = operations["get"]["responses"].get("200", {}).get("content", {})
        asked = path.replace("{kind}", "job").replace("{id}", "1")
        assert service.request_count.opens_stream("GET", asked, accept) == (
            "text/event-stream" in given
        )


async def test_a_stream_that_cannot_be_opened_now_is_told_to_come_back(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "RETRY_DELAYS_S", (0.05,))
    async with Penstock(proxy.url) as app:
        app.include(work)
        job = await app.enqueue(work)
        async with (
            listened_to(app, bounds=Bounds(openings=1)) as server,
            httpx.AsyncClient(timeout=60) as http,
        ):
            url = f"{server.live}/job/{job.id}"
            ticket = server.service.asgi.state.runtime.tickets.issue(
                Caller(name="ada", scopes=frozenset()), [Subject("job", job.id)]
            )
            proxy.refuse()
            await is_told_to_come_back(http, url)
            by_ticket = await is_told_to_come_back(http, f"{url}?ticket={ticket.ticket}")
            assert by_ticket.headers["access-control-allow-origin"] == "*"
            proxy.heal()
            proxy.swallow()
            waiting = asyncio.create_task(http.get(url, headers=EVENTS))
            await until(lambda: server.service.request_count.is_full_for_streams)
            await is_told_to_come_back(http, url)
            proxy.heal()
            server.service.ask_to_stop()
            await waiting
            await is_told_to_come_back(http, url)


async def test_a_server_that_has_enough_listeners_takes_no_more(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_hub, "MAX_LISTENERS", 1)
    job = await app.enqueue(work)
    heard = Heard()
    async with listened_to(app) as server:
        listening = asyncio.create_task(hear(f"{server.live}/job/{job.id}", heard))
        await until(lambda: heard.events)
        refused = await first(server, f"job/{job.id}")
        assert (refused.events, refused.retries) == ([], 1)
        async with httpx.AsyncClient(timeout=30) as http:
            once = await http.get(f"{server.live}/job/{job.id}", headers={"x-caller": "ada"})
            assert (once.status_code, once.headers["retry-after"]) == (503, "1")
    await listening


async def test_where_nobody_listens_nothing_is_asked(app: Penstock) -> None:
    job = await app.enqueue(work)
    async with listened_to(app) as server:
        hub = server.service.asgi.state.runtime.hub
        await first(server, f"job/{job.id}")
        await until(lambda: all(watcher.is_over for watcher in hub._watchers.values()))
        assert hub.listeners == 0
