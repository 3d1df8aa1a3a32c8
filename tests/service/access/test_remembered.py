"""A server remembers callers, but whoever changes keys or people is looked up each time."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from penstock import Penstock
from penstock.service import Entry, Service, auth
from penstock.service.passwords import Passwords
from tests.fixtures.database import Database
from tests.service.access.conftest import Asks, asking, served

JOBS, KEYS, PEOPLE = "/api/v1/jobs", "/api/v1/keys", "/api/v1/people"
PASSWORD = "correct horse battery"
NEW_KEY = {"name": "mine", "scopes": ["admin"]}
CHANGES: list[tuple[str, str, dict[str, Any] | None]] = [
    ("POST", KEYS, NEW_KEY),
    ("POST", f"{KEYS}/{'0' * 12}/rotate", {}),
    ("DELETE", f"{KEYS}/{'0' * 12}", None),
    ("POST", PEOPLE, {"name": "eve", "role": "admin", "password": PASSWORD}),
    ("PATCH", f"{PEOPLE}/ada", {"role": "admin"}),
]


@pytest.fixture(autouse=True)
def remembers_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (auth, auth):
        monkeypatch.setattr(module, "CALLER_CACHE_S", 86_400.0)


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """Behind a proxy that may name people."""
    entry = Entry(edge_header="x-remote-user", proxies=("127.0.0.1",))
    async with Service(served(Penstock(database.url)), entry=entry) as service:
        yield service


async def status(client: httpx.AsyncClient, **options: Any) -> int:
    return (await client.get(JOBS, **options)).status_code


@pytest.mark.parametrize(("verb", "path", "body"), CHANGES)
async def test_revoked_cached_key_cannot_change_keys_or_people(
    app: Penstock, admin: httpx.AsyncClient, verb: str, path: str, body: dict[str, Any] | None
) -> None:
    assert await status(admin) == 200
    await app.revoke_key("all")
    assert await status(admin) == 200
    answer = await admin.request(verb, path, json=body)
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:penstock:unknown-caller")
    assert list(await app.keys()) == []
    assert list(await app.people()) == []
    # The server knows better now.
    assert await status(admin) == 401


async def test_disabled_or_demoted_person_cannot_make_keys(service: Service, app: Penstock) -> None:
    for name in ("ada", "bob"):
        await app.add_person(name, role="admin", password_hash=await Passwords().hash(PASSWORD))
    async with asking(service) as ada, asking(service) as bob:
        tokens = {}
        for name, browser in (("ada", ada), ("bob", bob)):
            answer = await browser.post("/api/v1/login", json={"name": name, "password": PASSWORD})
            tokens[name] = {"x-csrf-token": answer.json()["csrf"]}
            assert await status(browser) == 200
        await app.set_person("ada", disabled=True)
        await app.set_person("bob", role="operator")
        answer = await ada.post(KEYS, json=NEW_KEY, headers=tokens["ada"])
        assert answer.status_code == 401
        answer = await bob.post(KEYS, json=NEW_KEY, headers=tokens["bob"])
        assert answer.status_code == 403
    assert list(await app.keys()) == []


async def test_disabled_person_behind_a_proxy_cannot_make_keys(
    service: Service, app: Penstock
) -> None:
    await app.add_person("ada", role="admin", password_hash="none that fits")
    named = {"x-remote-user": "ada"}
    async with asking(service) as client:
        token = (await client.get("/api/v1/me", headers=named)).json()["csrf"]
        await app.set_person("ada", disabled=True)
        assert await status(client, headers=named) == 200
        answer = await client.post(KEYS, json=NEW_KEY, headers=named | {"x-csrf-token": token})
    assert answer.status_code == 401
    assert list(await app.keys()) == []


async def test_key_without_admin_scope_is_refused_from_the_cache(app: Penstock, asks: Asks) -> None:
    client = await asks("read")
    assert await status(client) == 200
    await app.revoke_key("read")
    answer = await client.post(KEYS, json=NEW_KEY)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:penstock:not-allowed")
