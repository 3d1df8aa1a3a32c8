"""A key opens what its scopes say, until it expires, is replaced or revoked."""

import asyncio
from typing import Any

import asyncpg
import httpx
import pytest

from penstock import Penstock
from penstock.errors import ConfigError, KeyNotFound, NameTaken
from penstock.groups.keys import ROLES, Role, Secret
from penstock.service import Service, auth
from penstock.service.auth import Caller, requester
from penstock.service.problems import Problem
from tests.fixtures.database import Database
from tests.service.access.conftest import Asks, asking

JOBS = "/api/v1/jobs"
NEW = {"task": "greet", "args": {"name": "Ada"}}


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are asked for each time."""
    monkeypatch.setattr(auth, "CALLER_CACHE_S", 0.0)


async def status(client: httpx.AsyncClient) -> int:
    return (await client.get(JOBS)).status_code


async def test_without_a_key_nothing_answers(service: Service) -> None:
    async with asking(service) as client:
        for path in (JOBS, "/api/v1/openapi.json", "/metrics", "/nothing", "/"):
            answer = await client.get(path)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == 'Bearer realm="penstock"'
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["type"] == "urn:penstock:unknown-caller"


NO_KEYS = (
    "Bearer",
    "Bearer x",
    "Bearer pk_000000000000_" + "a" * 43,
    "Basic YWRhOng=",
    "bearer pk_é_",
    "Bearer pk_" + "0" * 100_000,
)


async def test_what_is_no_key_opens_nothing(service: Service) -> None:
    async with asking(service) as client:
        for credentials in NO_KEYS:
            answer = await client.get(JOBS, headers={b"authorization": credentials.encode()})
            assert answer.status_code == 401, credentials[:50]


async def test_another_secret_with_a_known_id_opens_nothing(
    service: Service, app: Penstock
) -> None:
    made = await app.create_key("ci", scopes=["read"])
    other = Secret(made.key.id, Secret.new().text).key
    async with asking(service, other) as client:
        assert await status(client) == 401


async def test_a_key_opens_what_its_scopes_say(asks: Asks) -> None:
    reader, enqueuer = await asks("read"), await asks("enqueue")
    assert await status(reader) == 200
    refused = await reader.post(JOBS, json=NEW)
    assert refused.status_code == 403
    assert "needs the scope 'enqueue'; key:read has read" in refused.json()["detail"]
    assert (await enqueuer.post(JOBS, json=NEW)).status_code == 202
    assert await status(enqueuer) == 403


async def test_a_job_says_which_key_asked_for_it(app: Penstock, asks: Asks) -> None:
    client = await asks("enqueue")
    job = (await client.post(JOBS, json=NEW)).json()["id"]
    assert (await app.get(job)).requested_by == "key:enqueue"


async def test_only_a_trusted_key_names_the_person_who_asks(app: Penstock, asks: Asks) -> None:
    asked = NEW | {"options": {"requested_by": "ada"}}
    trusted = await asks("enqueue", "on_behalf")
    job = (await trusted.post(JOBS, json=asked)).json()["id"]
    assert (await app.get(job)).requested_by == "ada"
    many = await trusted.post("/api/v1/bulk/jobs", json={"jobs": [asked, NEW]})
    named = [(await app.get(each["id"])).requested_by for each in many.json()["jobs"]]
    assert named == ["ada", "key:enqueue-on_behalf"]

    refused = await (await asks("read", "enqueue", "operate", "admin")).post(JOBS, json=asked)
    assert refused.status_code == 403
    assert [each["field"] for each in refused.json()["fields"]] == ["requested_by"]
    assert "on_behalf" in refused.json()["detail"]


@pytest.mark.parametrize("role", ROLES)
def test_people_ask_for_themselves_alone(role: Role) -> None:
    ada = Caller(name="ada", scopes=ROLES[role])
    assert requester(ada, None) == requester(ada, "ada") == "ada"
    with pytest.raises(Problem):
        requester(ada, "grace")


async def test_only_the_hash_of_a_secret_is_kept(
    app: Penstock, connection: asyncpg.Connection
) -> None:
    made = await app.create_key("ci", scopes=["read"])
    secret = Secret.read(made.secret)
    assert secret is not None
    assert made.secret not in repr(made)
    assert secret.text not in repr(secret)
    row = str(await connection.fetchrow("SELECT * FROM penstock.api_key"))
    assert secret.text not in row
    assert str(secret.hash) in row


async def test_a_revoked_key_opens_nothing_once_it_is_forgotten(
    forgetful: None, app: Penstock, asks: Asks
) -> None:
    client = await asks("read")
    assert await status(client) == 200
    await app.revoke_key("read")
    assert await status(client) == 401
    with pytest.raises(KeyNotFound, match="There is no key 'read' in use"):
        await app.revoke_key("read")


async def test_the_last_admin_stays_one(service: Service, app: Penstock) -> None:
    root = await app.create_key("root", scopes=["read", "admin"])
    reader = await app.create_key("reader", scopes=["read"])
    other = await app.create_key("other", scopes=["admin"])
    await app.add_person("ada", role="admin", password_hash="x")
    people, keys = "/api/v1/people", "/api/v1/keys"
    async with asking(service, root.secret) as client:
        # While there is another, each may go.
        assert (await client.delete(f"{keys}/{other.key.id}")).status_code == 200
        disabled = await client.patch(f"{people}/ada", json={"disabled": True})
        assert disabled.status_code == 200
        refused = await client.delete(f"{keys}/{root.key.id}")
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:penstock:last-admin")
        assert (await client.delete(f"{keys}/{reader.key.id}")).status_code == 200
        # One that was replaced is good for a day, which does not help for longer.
        new = await client.post(f"{keys}/{root.key.id}/rotate", json={})
        assert (await client.delete(f"{keys}/{new.json()['key']['id']}")).status_code == 409
        enabled = await client.patch(f"{people}/ada", json={"disabled": False})
        assert enabled.status_code == 200
        assert (await client.delete(f"{keys}/{new.json()['key']['id']}")).status_code == 200
        for change in ({"disabled": True}, {"role": "viewer"}):
            refused = await client.patch(f"{people}/ada", json=change)
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:penstock:last-admin")
        missing = await client.patch(f"{people}/nobody", json={"disabled": True})
        assert missing.status_code == 404
        assert (await client.delete(f"{keys}/{'0' * 12}")).status_code == 404
    # Who reaches the database may.
    await app.set_person("ada", disabled=True)


async def test_a_key_that_expires_sooner_is_no_other_admin(service: Service, app: Penstock) -> None:
    root = await app.create_key("root", scopes=["admin"])
    month = await app.create_key("month", scopes=["admin"], expires=30 * 86_400)
    day = await app.create_key("day", scopes=["admin"], expires=86_400)
    people, keys = "/api/v1/people", "/api/v1/keys"
    async with asking(service, root.secret) as client:

        async def is_refused(verb: str, path: str, **given: object) -> bool:
            answer = await client.request(verb, path, json=given or None)
            if answer.status_code == 409:
                assert answer.json()["type"] == "urn:penstock:last-admin"
            return answer.status_code == 409

        assert await is_refused("DELETE", f"{keys}/{root.key.id}")
        assert await is_refused("POST", f"{keys}/{root.key.id}/rotate", expires=90 * 86_400)
        # As long a life is none the shorter, and one that goes sooner may go.
        assert not await is_refused("POST", f"{keys}/{day.key.id}/rotate", overlap=60)
        assert not await is_refused("POST", f"{keys}/{month.key.id}/rotate", expires=60)
        assert not await is_refused("DELETE", f"{keys}/{month.key.id}")
        await app.add_person("ada", role="admin", password_hash="x")
        await app.create_key("spare", scopes=["admin"], expires=3600)
        assert not await is_refused("DELETE", f"{keys}/{root.key.id}")
    # Whom the service has let in stays so for five seconds: another key asks the rest.
    spare = await app.create_key("again", scopes=["admin"], expires=7200)
    async with asking(service, spare.secret) as client:
        for change in ({"disabled": True}, {"role": "viewer"}):
            refused = await client.patch(f"{people}/ada", json=change)
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:penstock:last-admin")
        await app.create_key("lasting", scopes=["admin"])
        disabled = await client.patch(f"{people}/ada", json={"disabled": True})
        assert disabled.status_code == 200


async def test_a_key_that_has_expired_may_go(
    service: Service, app: Penstock, connection: asyncpg.Connection
) -> None:
    over = await app.create_key("over", scopes=["admin"], expires=60)
    await connection.execute("UPDATE penstock.api_key SET expires_at = now()")
    assert await app.revoke_key(over.key.id, keep_admin=True) == [over.key.id]


async def test_of_two_admins_who_revoke_each_other_one_stays(
    service: Service, app: Penstock
) -> None:
    one = await app.create_key("one", scopes=["admin"])
    two = await app.create_key("two", scopes=["admin"])
    async with asking(service, one.secret) as first, asking(service, two.secret) as second:
        answers = await asyncio.gather(
            first.delete(f"/api/v1/keys/{two.key.id}"), second.delete(f"/api/v1/keys/{one.key.id}")
        )
    assert sorted(answer.status_code for answer in answers)[0] == 200
    assert len(await app.keys()) == 1


async def test_an_expired_key_opens_nothing(
    forgetful: None, service: Service, app: Penstock, connection: asyncpg.Connection
) -> None:
    made = await app.create_key("ci", scopes=["read"], expires=60)
    async with asking(service, made.secret) as client:
        assert await status(client) == 200
        await connection.execute("UPDATE penstock.api_key SET expires_at = now()")
        assert await status(client) == 401


async def test_both_keys_of_a_rotation_are_good_while_they_overlap(
    forgetful: None, service: Service, app: Penstock, connection: asyncpg.Connection
) -> None:
    old = await app.create_key("ci", scopes=["read"], expires=7 * 86_400)
    new = await app.rotate_key("ci", overlap=3600)
    async with asking(service, old.secret) as first, asking(service, new.secret) as second:
        assert [await status(first), await status(second)] == [200, 200]
        await connection.execute(
            "UPDATE penstock.api_key SET expires_at = now() WHERE id = $1", old.key.id
        )
        assert [await status(first), await status(second)] == [401, 200]
    assert (new.key.name, new.key.scopes) == ("ci", ("read",))
    assert new.key.expires_at is not None
    assert (new.key.expires_at - new.key.created_at).days in (6, 7)
    assert (await app.get_key(old.key.id)).replaced_by == new.key.id
    with pytest.raises(KeyNotFound):
        await app.rotate_key(old.key.id)


async def test_keys_and_people_are_listed_page_by_page(
    app: Penstock, admin: httpx.AsyncClient
) -> None:
    for number in range(3):
        await app.create_key("ci", scopes=["read"])
        await app.rotate_key("ci")
        await app.revoke_key("ci")
        await app.add_person(f"ada-{number}", role="viewer", password_hash="x")
    for path, what, by, everyone in (
        ("keys", "keys", "id", [key.id for key in await app.keys(all=True)]),
        ("people", "people", "name", [person.name for person in await app.people()]),
    ):
        assert len(everyone) == len(set(everyone)) >= 3
        found: list[str] = []
        page = {"after": None, what: []}
        for turn in range(5):
            after = {} if turn == 0 else {"after": page["after"]}
            answer = await admin.get(f"/api/v1/{path}", params={"all": True, "limit": 2, **after})
            page = answer.json()
            found += [each[by] for each in page[what]]
            if page["after"] is None:
                break
        assert found == everyone


async def test_a_name_means_one_key(app: Penstock) -> None:
    await app.create_key("ci", scopes=["read"])
    with pytest.raises(NameTaken, match="There is already a key with the name 'ci'"):
        await app.create_key("ci", scopes=["read"])
    await app.revoke_key("ci")
    await app.create_key("ci", scopes=["read"])
    assert [key.name for key in await app.keys()] == ["ci"]
    assert len(await app.keys(all=True)) == 2


async def test_a_key_that_makes_no_sense_is_refused(app: Penstock) -> None:
    wrong: list[Any] = [
        {"scopes": []},
        {"scopes": ["reed"]},
        {"scopes": ["read"], "expires": 0},
        {"scopes": "x"},
        {"scopes": ["read"], "name": "a b"},
    ]
    for given in wrong:
        with pytest.raises(ConfigError):
            await app.create_key(**{"name": "ci"} | given)


async def test_many_requests_ask_for_a_key_once(app: Penstock, asks: Asks) -> None:
    client = await asks("read")
    asked: list[Any] = []
    check = app.check_key

    async def count(secret: str) -> Any:
        asked.append(secret)
        return await check(secret)

    app.check_key = count  # type: ignore[method-assign]
    await asyncio.gather(*(client.get(JOBS) for _ in range(20)))
    assert len(asked) == 1


async def test_the_use_of_a_key_is_noted_once_a_minute(
    forgetful: None, app: Penstock, asks: Asks
) -> None:
    client = await asks("read")
    assert (await app.get_key("read")).last_used_at is None
    await client.get(JOBS)
    first = (await app.get_key("read")).last_used_at
    await client.get(JOBS)
    assert first is not None
    assert (await app.get_key("read")).last_used_at == first


async def test_the_first_key_is_made_once(
    database: Database, service: Service, app: Penstock
) -> None:
    async with Penstock(database.url) as other:
        made = await asyncio.gather(app.first_key(), other.first_key())
    [key] = [each for each in made if each is not None]
    async with asking(service, key) as client:
        assert await status(client) == 200
    await app.revoke_key("first")
    assert await app.first_key() is None
