"""Every change over HTTP is in the audit, with who made it."""

import httpx

from penstock import Penstock
from penstock.service import Service
from tests.fixtures.database import Database
from tests.service.access.calls import API, CALLS, UNNOTED, make_things, url_of
from tests.service.access.conftest import asking

READS = {"GET"}


def test_every_change_is_noted_or_said_not_to_be() -> None:
    changing = {route for route in CALLS if route[0] not in READS}
    assert {route for route in changing if CALLS[route].noted is None} == UNNOTED


async def test_every_change_is_noted_with_who_made_it(database: Database) -> None:
    async with Penstock(database.url) as app:

        @app.task(name="work")
        async def work(text: str) -> None: ...

        @app.task(name="fail", max_attempts=1)
        async def fail(text: str) -> None:
            raise ValueError(text)

        things = await make_things(app, "acme")
        things.names["key"] = (await app.create_key("ci", scopes=["read"])).key.id
        things.names["person"] = "grace"
        await app.add_person("grace", role="viewer", password_hash="x")
        made = await app.create_key("root", scopes=["read", "enqueue", "operate", "admin"])
        async with Service(app) as service, asking(service, made.secret) as client:
            for (verb, path), call in CALLS.items():
                if call.noted is None:
                    continue
                last = (await app.audit(limit=1)).entries[0].id
                answer = await client.request(
                    verb,
                    url_of(path, call, things),
                    params=things.fill(call.query),
                    json=things.fill(call.body),
                )
                assert answer.status_code < 300, (verb, path, answer.text)
                entry = (await app.audit(limit=1)).entries[0]
                assert entry.id != last, (verb, path)
                assert (entry.actor, entry.action) == ("key:root", call.noted), (verb, path)


async def test_the_audit_is_paged_and_filtered(app: Penstock, admin: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await app.acting("ada").pause(name)
    await app.acting("bob").resume("a")
    first = (await admin.get(f"{API}/audit", params={"actor": "ada", "limit": 2})).json()
    assert [each["target"] for each in first["entries"]] == ["c", "b"]
    query = {"actor": "ada", "limit": 2, "after": first["after"]}
    rest = (await admin.get(f"{API}/audit", params=query)).json()
    assert [each["target"] for each in rest["entries"]] == ["a"]
    assert rest["after"] is None
    [one] = (await admin.get(f"{API}/audit", params={"action": "resume"})).json()["entries"]
    assert (one["actor"], one["target"]) == ("bob", "a")


async def test_what_a_program_does_unnamed_is_no_news(app: Penstock) -> None:
    job = await app.enqueue(app.tasks.get("greet").options(delay=3600), "Ada")
    await app.cancel(job)
    await app.pause("mail")
    assert (await app.audit()).entries == ()


async def test_who_changed_many_jobs_is_noted_with_their_ids(app: Penstock) -> None:
    greet = app.tasks.get("greet").options(delay=3600)
    jobs = [(await app.enqueue(greet, "Ada")).id for _ in range(2)]
    await app.acting("ada").cancel_many([*jobs, "999"], "wrong file")
    [entry] = (await app.audit()).entries
    assert (entry.actor, entry.action, entry.target) == ("ada", "cancel", None)
    assert entry.detail == {"jobs": 2, "ids": jobs, "reason": "wrong file"}
