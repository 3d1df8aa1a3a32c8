"""People log in with a password, and are known by a cookie that other pages cannot use."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest

from penstock import Penstock
from penstock.service import Entry, Service, auth
from penstock.service.passwords import Passwords
from tests.fixtures.database import Database
from tests.service.access.conftest import Asks, asking, served

LOGIN, ME, JOBS = "/api/v1/login", "/api/v1/me", "/api/v1/jobs"
RIGHT = "correct horse battery"
ADA = {"name": "ada", "password": RIGHT}
NEW = {"task": "greet", "args": {"name": "Ada"}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Argon2 with little to do, and nothing remembered."""
    from argon2 import PasswordHasher

    init = Passwords.__init__

    def light(self: Passwords) -> None:
        init(self)
        self._hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

    monkeypatch.setattr(Passwords, "__init__", light)
    for module in (auth, auth):
        monkeypatch.setattr(module, "CALLER_CACHE_S", 0.0)


async def add(app: Penstock, name: str = "ada", role: Any = "operator") -> None:
    kept = await Passwords().hash(RIGHT)
    await app.add_person(name, role=role, password_hash=kept)


@pytest.fixture
async def browser(service: Service, app: Penstock) -> AsyncIterator[httpx.AsyncClient]:
    """A client that keeps cookies; Ada, an operator, may log in."""
    await add(app)
    async with asking(service) as client:
        yield client


async def entered(client: httpx.AsyncClient, **who: str) -> dict[str, str]:
    """Log in; the header that changes need."""
    answer = await client.post(LOGIN, json=ADA | who)
    assert answer.status_code == 200, answer.text
    return {"x-csrf-token": answer.json()["csrf"]}


async def test_a_person_who_logs_in_is_known_by_a_cookie(browser: httpx.AsyncClient) -> None:
    assert (await browser.get(JOBS)).status_code == 401
    answer = await browser.post(LOGIN, json=ADA)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("penstock_login=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert (await browser.get(JOBS)).status_code == 200
    told = (await browser.get(ME)).json()
    assert (told["name"], told["scopes"]) == ("ada", ["enqueue", "operate", "read"])
    assert told["csrf"] == answer.json()["csrf"]


async def test_by_https_the_cookie_is_the_host_s_alone(service: Service, app: Penstock) -> None:
    await add(app)
    transport = httpx.ASGITransport(service.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="https://localhost") as client:
        answer = await client.post(LOGIN, json=ADA)
        assert answer.headers["set-cookie"].startswith("__Host-penstock=")
        assert "Secure" in answer.headers["set-cookie"]
        assert "Path=/;" in answer.headers["set-cookie"]
        assert (await client.get(ME)).status_code == 200


async def test_a_cookie_alone_changes_nothing(browser: httpx.AsyncClient) -> None:
    token = await entered(browser)
    changes = (("POST", JOBS), ("DELETE", f"{JOBS}/1"), ("POST", "/api/v1/logout"))
    for verb, path in changes:
        for header in ({}, {"x-csrf-token": "x"}, {"x-csrf-token": ""}):
            answer = await browser.request(verb, path, json=NEW, headers=header)
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:penstock:csrf")
        answer = await browser.request(verb, path, json=NEW, headers=token)
        assert answer.status_code != 403, (verb, path)


async def test_a_page_of_somebody_else_s_changes_nothing(browser: httpx.AsyncClient) -> None:
    token = await entered(browser)
    for origin in ("https://evil.example", "null", "http://localhost.evil.example"):
        answer = await browser.post(JOBS, json=NEW, headers=token | {"origin": origin})
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:penstock:foreign-origin")
        assert (await browser.post(LOGIN, json=ADA, headers={"origin": origin})).status_code == 403
    own = token | {"origin": "http://localhost"}
    assert (await browser.post(JOBS, json=NEW, headers=own)).status_code == 202


async def test_logins_are_in_the_audit(browser: httpx.AsyncClient, app: Penstock) -> None:
    await browser.post(LOGIN, json=ADA | {"password": "wrong"})
    token = await entered(browser)
    await browser.post("/api/v1/logout", headers=token)
    found = (await app.audit(target="ada", limit=3)).entries
    assert [(each.actor, each.action) for each in found] == [
        ("ada", "logout"),
        ("ada", "login"),
        ("ada", "login_failed"),
    ]
    assert found[1].detail == {"address": "127.0.0.1"}


async def test_who_logs_out_is_out(browser: httpx.AsyncClient) -> None:
    token = await entered(browser)
    kept = dict(browser.cookies)
    assert (await browser.post("/api/v1/logout", headers=token)).status_code == 204
    browser.cookies.update(kept)
    assert (await browser.get(ME)).status_code == 401


@pytest.mark.parametrize(
    "change", [{"disabled": True}, {"password": "another long password"}], ids=str
)
async def test_disabling_or_a_new_password_ends_all_sessions(
    browser: httpx.AsyncClient, asks: Asks, change: dict[str, Any]
) -> None:
    await entered(browser)
    admin = await asks()
    assert (await browser.get(ME)).status_code == 200
    assert (await admin.patch("/api/v1/people/ada", json=change)).status_code == 200
    assert (await browser.get(ME)).status_code == 401
    assert (await browser.post(LOGIN, json=ADA)).status_code == 401


async def test_a_login_is_over_after_its_time(
    browser: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    for column in ("expires_at = now()", "seen_at = now() - interval '121 min'"):
        await entered(browser)
        assert (await browser.get(ME)).status_code == 200
        await connection.execute(f"UPDATE penstock.login SET {column}")
        assert (await browser.get(ME)).status_code == 401


async def test_unknown_disabled_and_mistaken_get_one_answer(
    browser: httpx.AsyncClient, app: Penstock
) -> None:
    await add(app, "bob")
    await app.set_person("bob", disabled=True)
    answers = [
        await browser.post(LOGIN, json={"name": name, "password": password})
        for name, password in (("ada", "wrong"), ("bob", RIGHT), ("nobody", RIGHT))
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    entries = [each for each in (await app.audit(action="login_failed")).entries]
    assert [each.target for each in entries] == [None, "bob", "ada"]


async def test_attempts_are_limited_by_name_over_all_servers(
    database: Database, browser: httpx.AsyncClient
) -> None:
    async with Service(Penstock(database.url)) as other, asking(other) as second:
        wrong = ADA | {"password": "wrong"}
        answers = await asyncio.gather(
            *(client.post(LOGIN, json=wrong) for client in (browser, second) for _ in range(5))
        )
        counts = [each.status_code for each in answers]
        assert counts.count(401) == 6
        assert counts.count(429) == 4
        refused = await browser.post(LOGIN, json=ADA)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1


async def test_after_the_wait_the_right_password_is_let_in(
    browser: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    for _ in range(7):
        await browser.post(LOGIN, json=ADA | {"password": "wrong"})
    assert (await browser.post(LOGIN, json=ADA)).status_code == 429
    await connection.execute("UPDATE penstock.login_failure SET until = now()")
    await entered(browser)
    left = await connection.fetch("SELECT failures FROM penstock.login_failure")
    assert [row["failures"] for row in left] == [6]  # the address's; the name's are forgotten


async def test_waits_grow_and_an_hour_s_rest_ends_them(connection: asyncpg.Connection) -> None:
    call = (
        "SELECT penstock.try_login_v1(ARRAY['\\x01'::bytea], '{2}', '{60}',"
        " timestamptz '2030-01-01' + make_interval(secs => $1))"
    )
    waits: list[float] = []
    now = 0.0
    for _ in range(11):
        assert await connection.fetchval(call, now) == 0
        waits.append(await connection.fetchval(call, now) if len(waits) >= 2 else 0.0)
        now += waits[-1]
    assert waits == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    now += 3601
    assert [await connection.fetchval(call, now) for _ in range(3)] == [0, 0, 0]


async def test_an_address_that_guesses_many_names_is_limited(
    browser: httpx.AsyncClient,
) -> None:
    codes = [
        (await browser.post(LOGIN, json={"name": f"n{n}", "password": "x"})).status_code
        for n in range(23)
    ]
    assert codes[:21] == [401] * 21
    assert codes[21:] == [429, 429]


@pytest.fixture
async def edge(database: Database) -> AsyncIterator[Service]:
    """Behind a proxy at 10.0.0.1 that asks for passwords itself."""
    entry = Entry(proxies=("10.0.0.1",), edge_header="x-remote-user")
    async with Service(served(Penstock(database.url)), entry=entry) as service:
        await add(service.asgi.state.runtime.app)
        yield service


def through(service: Service, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(service.asgi, client=(address, 1))
    return httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers={"x-remote-user": "ada"}
    )


async def test_a_proxy_is_believed_and_nobody_else(edge: Service) -> None:
    async with through(edge, "10.0.0.1") as client:
        told = (await client.get(ME)).json()
        assert told["name"] == "ada"
        assert (await client.post(JOBS, json=NEW)).status_code == 403
        token = {"x-csrf-token": told["csrf"]}
        assert (await client.post(JOBS, json=NEW, headers=token)).status_code == 202
        assert (await client.get(ME, headers={"x-remote-user": "eve"})).status_code == 401
        client.headers = httpx.Headers([("x-remote-user", "ada"), ("x-remote-user", "eve")])
        assert (await client.get(ME)).status_code == 400
    for address in ("10.0.0.2", "127.0.0.1", "::1"):
        async with through(edge, address) as client:
            assert (await client.get(ME)).status_code == 401


async def test_behind_a_proxy_the_caller_s_address_counts(
    edge: Service, connection: asyncpg.Connection
) -> None:
    async with through(edge, "10.0.0.1") as client:
        for forwarded in (
            ["1.1.1.1, 2.2.2.2"],
            ["3.3.3.3, 2.2.2.2, 10.0.0.1"],
            ["4.4.4.4", "2.2.2.2", "10.0.0.1"],
        ):
            headers = httpx.Headers([("x-forwarded-for", line) for line in forwarded])
            await client.post(LOGIN, json=ADA | {"password": "wrong"}, headers=headers)
    rows = await connection.fetch(
        "SELECT detail ->> 'address' AS a FROM penstock.audit WHERE action = 'login_failed'"
    )
    assert {row["a"] for row in rows} == {"2.2.2.2"}


async def test_roles_are_what_people_may_do(service: Service, app: Penstock) -> None:
    for name, role in (("vera", "viewer"), ("olga", "operator"), ("anna", "admin")):
        await add(app, name, role)
    found = {}
    for name in ("vera", "olga", "anna"):
        async with asking(service) as client:
            token = await entered(client, name=name)
            found[name] = [
                (await client.get(JOBS)).status_code,
                (await client.post(JOBS, json=NEW, headers=token)).status_code,
                (await client.get("/api/v1/people")).status_code,
            ]
    assert found == {"vera": [200, 403, 403], "olga": [200, 202, 403], "anna": [200, 202, 200]}


async def test_a_short_password_is_refused(admin: httpx.AsyncClient) -> None:
    given = {"name": "ada", "role": "viewer", "password": "short"}
    answer = await admin.post("/api/v1/people", json=given)
    assert answer.status_code == 422
    assert "short" not in answer.text


async def test_text_that_no_database_takes_is_refused(
    browser: httpx.AsyncClient, asks: Asks
) -> None:
    for name in ('"a\\u0000"', '"\\ud800"'):
        body = f'{{"name": {name}, "password": "x"}}'
        headers = {"content-type": "application/json"}
        answer = await browser.post(LOGIN, content=body, headers=headers)
        assert answer.status_code in (400, 422), answer.text
    admin = await asks()
    for query in ({"actor": "a\x00"}, {"target": "\x00"}):
        assert (await admin.get("/api/v1/audit", params=query)).status_code == 422
    given = {"name": "x", "scopes": ["read"], "tenant": "a\x00"}
    assert (await admin.post("/api/v1/keys", json=given)).status_code in (409, 422)
