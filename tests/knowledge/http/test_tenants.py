"""A key that is bound to a tenant crosses to no other on any route of knowledge."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from penstock import Database as Address
from penstock import Penstock
from penstock.migrate import migrate
from penstock.service import Service
from penstock_apps.knowledge.knowledge import Knowledge
from tests.fixtures.database import Database
from tests.fixtures.service import API
from tests.knowledge.http.conftest import document
from tests.knowledge.scene import Scene
from tests.service.access.conftest import asking

MARK = "s3cret"


@dataclass(frozen=True)
class Call:
    """A request that names what is another's."""

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    file: bool = False
    statuses: tuple[int, ...] = (404,)


def one(what: str, **query: str) -> Call:
    return Call({"id": what}, query)


WHOSE = {"tenant": "acme"}

# What stands for another's is in `things`; with 200 or 202 one gets one's own, which is nothing.
CALLS: dict[tuple[str, str], Call] = {
    ("POST", "/upload/documents"): Call(query={"source": "source"}, file=True),
    ("POST", "/upload/text"): Call(body={"name": "x", "text": "x"}, statuses=(202,)),
    ("POST", "/upload/url"): Call(body={"url": "https://example.org/"}, statuses=(202,)),
    ("GET", "/knowledge-bases"): Call(statuses=(200,)),
    ("POST", "/knowledge-bases"): Call(body={"name": "plant"}, statuses=(201,)),
    ("GET", "/knowledge-bases/{id}"): one("base"),
    ("GET", "/knowledge-bases/{id}/progress"): one("base"),
    ("GET", "/knowledge-sources"): Call(query={"base": "base"}),
    ("GET", "/knowledge-sources/{id}"): one("source"),
    ("GET", "/knowledge-sources/{id}/progress"): one("source"),
    ("POST", "/knowledge-sources/{id}/retry"): one("source"),
    ("POST", "/knowledge-sources/{id}/cancel"): one("source"),
    ("GET", "/knowledge-progress"): Call(query={"batch": "batch"}),
    ("GET", "/documents"): Call(query={"source": "source"}, statuses=(200,)),
    ("GET", "/documents/{id}"): one("document"),
    ("GET", "/documents/{id}/chunks"): one("document"),
    ("GET", "/documents/{id}/link"): one("document"),
    ("GET", "/files/{token}"): Call({"token": "document"}, statuses=(403,)),
    ("DELETE", "/documents/{id}"): one("document"),
    ("DELETE", "/knowledge-sources/{id}"): one("source"),
    ("PATCH", "/knowledge-bases/{id}"): Call({"id": "base"}, body={"chunking": {"size": 128}}),
    ("DELETE", "/knowledge-bases/{id}"): one("base"),
    ("GET", "/knowledge-tenant"): Call(statuses=(200,)),
    ("PATCH", "/knowledge-tenant"): Call(query=WHOSE, body={"active": False}, statuses=(403,)),
    ("DELETE", "/knowledge-tenant"): Call(query=WHOSE, statuses=(403,)),
    ("GET", "/search"): Call(query={"q": MARK, "source": "source"}),
}


def routes() -> set[tuple[str, str]]:
    return {
        (verb.upper(), path.removeprefix(API))
        for path, verbs in document()["paths"].items()
        for verb, told in verbs.items()
        if "knowledge" in told.get("tags", ())
    }


@pytest.fixture
async def app(knowledge_database: Database, objects: object) -> AsyncIterator[Penstock]:
    """An app whose login may become any role, under row level security."""
    await migrate(knowledge_database.direct_url, rls=True)
    app = Penstock(knowledge_database.admin_url)
    await Knowledge(app).migrate(Address.of(knowledge_database.direct_url))
    async with app:
        yield app


async def things_of(scene: Scene, tenant: str) -> dict[str, str]:
    """One of each, of a tenant; what is secret about them has the mark in it."""
    library = scene.knowledge.of(scene.runtime, tenant)
    receipt = await scene.bring(library, {f"{MARK}.txt": f"{MARK} water"}, base="plant")
    [document] = receipt.documents
    base = await library.base("plant")
    names = {"base": base.id, "source": receipt.source, "document": document.id}
    return {name: str(value) for name, value in names.items()} | {"batch": receipt.batch}


async def rows_of(scene: Scene, tenant: str) -> set[str]:
    """All that the tables hold of a tenant."""
    found = set()
    for table in ("base", "source", "document", "chunk", "passage", "object", "edition", "usage"):
        rows = await scene.rows(
            f"SELECT t::text AS told FROM k.{table} AS t WHERE tenant = $1", tenant
        )
        found |= {f"{table} {row['told']}" for row in rows}
    return found


@pytest.mark.usefixtures("quick")
async def test_a_key_of_a_tenant_crosses_on_no_route(app: Penstock, scene: Scene) -> None:
    theirs = await things_of(scene, "globex")
    before = await rows_of(scene, "globex")
    assert len(before) > 6
    made = await app.create_key("acme", scopes=["read", "enqueue", "operate"], tenant="acme")
    async with Service(app) as service, asking(service, made.secret) as client:
        assert routes() == set(CALLS)
        for (verb, path), call in CALLS.items():
            where = API + path.format(**{name: theirs[key] for name, key in call.path.items()})
            query = {name: theirs.get(value, value) for name, value in call.query.items()}
            answer = await ask(client, verb, where, query, call)
            assert answer.status_code in call.statuses, (verb, path, answer.text)
            assert MARK not in answer.text, (verb, path)
            named = await ask(client, verb, where, {**query, "tenant": "globex"}, call)
            if path != "/files/{token}":
                assert named.status_code == 403, (verb, path, named.text)
            assert MARK not in named.text
        live = f"{API}/live/knowledge-source/{theirs['source']}"
        assert (await client.get(live)).status_code == 404
        own = (await client.get(f"{API}/knowledge-bases")).json()["bases"]
        assert theirs["base"] not in [each["id"] for each in own]
        assert (await client.get(f"{API}/knowledge-progress")).json()["total"] == 2
    assert await rows_of(scene, "globex") == before


async def test_a_key_of_a_tenant_changes_its_own_base(app: Penstock, scene: Scene) -> None:
    base = (await things_of(scene, "acme"))["base"]
    made = await app.create_key("acme", scopes=["read", "enqueue", "operate"], tenant="acme")
    async with Service(app) as service, asking(service, made.secret) as client:
        where = f"{API}/knowledge-bases/{base}"
        elsewhere = {"provider": "openai", "base_url": "http://localhost:1/v1"}
        refused = await client.patch(where, json={"embedding": elsewhere})
        assert refused.status_code == 403
        changed = await client.patch(where, json={"chunking": {"size": 128}})
        assert changed.status_code == 202, changed.text
        await scene.drain()
        shown = (await client.get(where)).json()
        assert (shown["chunking"]["size"], shown["building"]) == (128, None)


async def ask(
    client: httpx.AsyncClient, verb: str, where: str, query: dict[str, str], call: Call
) -> httpx.Response:
    given: dict[str, Any] = {}
    if call.body is not None:
        given = {"content": json.dumps(call.body), "headers": {"content-type": "application/json"}}
        given["headers"]["accept"] = "application/json"
    if call.file:
        given = {"files": [("files", ("x.txt", b"x"))]}
    return await client.request(verb, where, params=query, **given)


async def test_scopes_say_what_a_key_may_do(app: Penstock) -> None:
    made = await app.create_key("reader", scopes=["read"])
    async with Service(app) as service, asking(service, made.secret) as client:
        for (verb, path), call in CALLS.items():
            where = API + path.format(id="1", token="x")
            answer = await ask(client, verb, where, {"tenant": "x"}, call)
            if verb != "GET":
                assert answer.status_code == 403, (verb, path)
    async with Service(app) as service, asking(service) as stranger:
        for verb, path in CALLS:
            answer = await stranger.request(verb, API + path.format(id="1", token="x"))
            assert answer.status_code == (403 if path == "/files/{token}" else 401), path
