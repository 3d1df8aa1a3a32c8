"""Knowledge bases that are asked for once more."""

from typing import Any

import httpx
import pytest

from tests.fixtures.database import Database, connected

LAW: dict[str, Any] = {"name": "law", "language": "german", "chunking": {"size": 128}}


async def test_a_base_that_is_there_is_answered_as_it_is(http: httpx.AsyncClient) -> None:
    made = await http.post("/knowledge-bases", json=LAW)
    assert made.status_code == 201
    settings: dict[str, Any]
    for settings in ({}, LAW, {"chunking": {}, "embedding": {}}):
        again = await http.post("/knowledge-bases", json={"name": "law", **settings})
        assert (again.status_code, again.json()) == (200, made.json())


async def test_bases_come_page_by_page(http: httpx.AsyncClient) -> None:
    for name in ("wine", "art", "law"):
        assert (await http.post("/knowledge-bases", json={"name": name})).status_code == 201
    pages, after = [], {}
    while True:
        page = (await http.get("/knowledge-bases", params={"limit": 2} | after)).json()
        pages.append([each["name"] for each in page["bases"]])
        if page["after"] is None:
            break
        after = {"after": page["after"]}
    assert pages == [["art", "law"], ["wine"]]


async def test_broken_base_affects_no_other_and_can_be_deleted(
    http: httpx.AsyncClient, knowledge_database: Database
) -> None:
    for name in ("art", "law", "wine"):
        assert (await http.post("/knowledge-bases", json={"name": name})).status_code == 201
    async with connected(knowledge_database.admin_url) as admin:
        await admin.execute(
            "DELETE FROM penstock_knowledge.edition AS e USING penstock_knowledge.base AS b"
            " WHERE b.id = e.base AND b.name = 'law'"
        )
    bases = (await http.get("/knowledge-bases", params={"limit": 2})).json()["bases"]
    assert [each["name"] for each in bases] == ["art", "wine"]
    assert (await http.get("/search?q=weirs&mode=words")).status_code == 200
    for answer in (
        await http.get("/knowledge-bases/law"),
        await http.post("/knowledge-bases", json={"name": "law"}),
        await http.get("/search?q=weirs&base=law"),
    ):
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:penstock:base-broken")
    assert (await http.delete("/knowledge-bases/law")).status_code == 202
    assert (await http.post("/knowledge-bases", json={"name": "law"})).status_code == 201


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("25006", "database-read-only"),
        ("53100", "database-exhausted"),
        ("57014", "database-busy"),
        ("57P01", "database-lost"),
    ],
)
async def test_what_the_database_refuses_is_told_as_for_the_queue(
    http: httpx.AsyncClient, knowledge_database: Database, state: str, kind: str
) -> None:
    refuse = f"""
        CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'no such luck' USING ERRCODE = '{state}'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON penstock_knowledge.base
            FOR EACH ROW EXECUTE FUNCTION public.refuse();
    """
    async with connected(knowledge_database.admin_url) as admin:
        await admin.execute(refuse)
    answer = await http.post("/knowledge-bases", json=LAW)
    assert (answer.status_code, answer.json()["type"]) == (503, f"urn:penstock:{kind}")
    assert "no such luck" not in answer.text


async def test_a_base_that_is_there_with_other_settings_is_a_conflict(
    http: httpx.AsyncClient,
) -> None:
    base = (await http.post("/knowledge-bases", json=LAW)).json()
    answer = await http.post("/knowledge-bases", json={"name": "law", "chunking": {"size": 64}})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:penstock:name-taken")
    assert f"PATCH /knowledge-bases/{base['id']}" in answer.json()["detail"]
    [field] = answer.json()["fields"]
    assert field["field"] == "chunking"
    assert '"size":128' in field["problem"]

    answer = await http.post("/knowledge-bases", json={"name": "law", "language": "english"})
    assert answer.status_code == 409
    assert "The language of a base cannot be changed" in answer.json()["detail"]

    # What a change has asked for is what counts, also while it is being built.
    await http.patch("/knowledge-bases/law", json={"chunking": {"size": 64}})
    again = await http.post("/knowledge-bases", json={"name": "law", "chunking": {"size": 64}})
    assert again.status_code == 200
