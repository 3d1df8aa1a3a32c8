"""What a client sees of bases, sources and documents, and what it finds in them."""

import httpx
import pytest

from tests.knowledge.http.test_upload import files
from tests.knowledge.scene import Scene

pytestmark = pytest.mark.usefixtures("quick")

TEXTS = {
    "pumps.md": "# Pumps\n\nA penstock leads water down to the turbine.",
    "valves.md": "# Valves\n\nThe valve is closed before anybody opens the gate.",
    "plan.pdf": "%PDF-1.4",
}

SEARCH = "base, document, k, metadata, mode, q, source, tag, tenant"
WHERE = '/upload/documents?base=plant&name=manual&tags=new&metadata={"team": "plant"}'


async def brought(scene: Scene, http: httpx.AsyncClient) -> str:
    """A source of two documents that went in and one that failed."""
    form = [("files", (path, text.encode())) for path, text in TEXTS.items()]
    answer = await http.post(WHERE, files=form)
    assert answer.status_code == 202, answer.text
    await scene.drain()
    return str(answer.json()["knowledgeSourceIds"][0])


async def test_bases_sources_and_documents_are_told(scene: Scene, http: httpx.AsyncClient) -> None:
    source = await brought(scene, http)
    [base] = (await http.get("/knowledge-bases")).json()["bases"]
    assert (base["name"], base["embedding"]["provider"]) == ("plant", "wordllama")
    for name in ("plant", base["id"]):
        assert (await http.get(f"/knowledge-bases/{name}")).json() == base
    made = await http.post("/knowledge-bases", json={"name": "law", "chunking": {"size": 128}})
    assert (made.status_code, made.json()["chunking"]["size"]) == (201, 128)
    for wrong in ({"chunking": {"size": 1}}, {"language": "klingon"}):
        answer = await http.post("/knowledge-bases", json={"name": "x", **wrong})
        assert answer.status_code == 422
    assert "english" in answer.json()["detail"]

    [listed] = (await http.get("/knowledge-sources?base=plant")).json()["sources"]
    assert listed == (await http.get(f"/knowledge-sources/{source}")).json()
    assert (listed["name"], listed["kind"]) == ("manual", "files")
    assert (await http.get("/knowledge-sources?base=law")).json() == {"sources": [], "after": None}

    page = (await http.get(f"/documents?source={source}&limit=2")).json()
    rest = (await http.get(f"/documents?source={source}&after={page['after']}")).json()
    documents = {each["path"]: each for each in page["documents"] + rest["documents"]}
    assert set(documents) == set(TEXTS)
    assert [each["tags"] for each in documents.values()] == [["new"]] * 3
    assert documents["plan.pdf"]["reason"] == "broken"
    [failed] = (await http.get("/documents?state=failed")).json()["documents"]
    assert failed["id"] == documents["plan.pdf"]["id"]
    pumps = documents["pumps.md"]["id"]
    assert (await http.get(f"/documents/{pumps}")).json()["title"] == "Pumps"
    [chunk] = (await http.get(f"/documents/{pumps}/chunks")).json()["chunks"]
    assert (chunk["heading"], chunk["text"]) == ("Pumps", TEXTS["pumps.md"].splitlines()[-1])


async def test_tags_are_of_the_files_they_were_sent_with(
    scene: Scene, http: httpx.AsyncClient
) -> None:
    async def sent(query: str, **texts: str) -> str:
        form = [("files", (f"{name}.md", text.encode())) for name, text in texts.items()]
        answer = await http.post(f"/upload/documents?{query}", files=form)
        await scene.drain()
        return str(answer.json()["knowledgeSourceIds"][0])

    async def tagged(tag: str) -> set[str]:
        """By searching, and by what is told of each document."""
        hits = (await http.get(f"/search?q=water&tag={tag}")).json()["hits"]
        documents = (await http.get("/documents")).json()["documents"]
        found = {each["path"] for each in hits}
        assert found == {each["path"] for each in documents if tag in each["tags"]}
        return found

    source = await sent("", a="Water is led down.")
    await sent("tags=law", b="Water rights are old.")
    assert await tagged("law") == {"b.md"}
    await sent("", c="Water boils.")
    assert await tagged("law") == {"b.md"}
    await sent(f"base=default&source={source}&tags=heat", c="Water boils.")
    assert (await tagged("law"), await tagged("heat")) == ({"b.md"}, {"c.md"})
    wish = {"name": "d.md", "text": "Water freezes."}
    for tags in ([], ["cold"]):
        await http.post("/upload/text", json={**wish, "tags": tags})
        await scene.drain()
        assert await tagged("cold") == ({"d.md"} if tags else set())


async def test_a_base_is_cut_anew_when_it_is_changed(scene: Scene, http: httpx.AsyncClient) -> None:
    await brought(scene, http)
    same = await http.patch("/knowledge-bases/plant", json={})
    assert (same.status_code, same.json()["building"]) == (200, None)

    smaller = await http.patch("/knowledge-bases/plant", json={"chunking": {"size": 64}})
    assert smaller.status_code == 202
    # Both changes come, though the first is still on its way.
    fewer = await http.patch("/knowledge-bases/plant", json={"embedding": {"dimensions": 64}})
    assert fewer.status_code == 202
    assert fewer.json()["building"] not in (None, smaller.json()["building"])
    assert fewer.json()["dimensions"] == 256
    again = await http.patch("/knowledge-bases/plant", json={"embedding": {"dimensions": 64}})
    assert (again.status_code, again.json()) == (202, fewer.json())
    await scene.drain()

    changed = (await http.get("/knowledge-bases/plant")).json()
    assert (changed["chunking"]["size"], changed["dimensions"]) == (64, 64)
    assert (changed["building"], changed["error"]) == (None, None)
    wrong = await http.patch("/knowledge-bases/plant", json={"chunking": {"size": 1}})
    assert wrong.status_code == 422


async def test_search_finds_text_and_a_link_opens_its_file(
    scene: Scene, server: str, http: httpx.AsyncClient
) -> None:
    source = await brought(scene, http)
    for query in ("", "&base=plant", f"&source={source}", "&tag=new", "&mode=words"):
        answer = await http.get(f"/search?q=turbine&k=1{query}")
        [hit] = answer.json()["hits"]
        assert (hit["path"], hit["heading"], hit["source"]) == ("pumps.md", "Pumps", source)
        assert hit["base"] == "plant"
    assert (await http.get("/search?q=turbine&tag=old")).json() == {"hits": []}
    document = hit["document"]
    for metadata, found in (('{"team": "plant"}', 1), ('{"team": "sales"}', 0), ("{}", 1)):
        query = {"q": "turbine", "k": "1", "metadata": metadata, "document": document}
        assert len((await http.get("/search", params=query)).json()["hits"]) == found
    for wrong in ("[1]", "{", '{"a": "\\u0000"}'):
        answer = await http.get("/search", params={"q": "turbine", "metadata": wrong})
        assert (answer.status_code, "object of JSON" in answer.text) == (422, True)
    for nowhere in ("base=nowhere", "source=999999", f"source={source}&source=999999"):
        assert (await http.get(f"/search?q=turbine&{nowhere}")).status_code == 404
    assert (await http.get("/search?q=turbine&tenant=other")).json() == {"hits": []}

    link = (await http.get(f"/documents/{document}/link")).json()
    assert link["expires_in"] == 3600
    answer = await http.get(f"{server}{link['url']}", headers={"x-scopes": ""})
    assert answer.text == TEXTS["pumps.md"]
    assert answer.headers["content-disposition"] == "attachment"
    for changed in (link["url"][:-3] + "AAA", "/api/v1/files/nothing"):
        assert (await http.get(f"{server}{changed}")).status_code == 403


BOGUS = [
    ("GET", "/search?q=turbine&bogus=1", SEARCH),
    ("GET", "/search?bogus=1", SEARCH),
    ("GET", "/documents?bogus=1", "after, base, batch, limit, source, state, tenant"),
    ("GET", "/knowledge-bases?bogus=", "after, limit, tenant"),
    ("GET", "/knowledge-sources/1/progress?bogus=1", "tenant"),
    (
        "POST",
        "/upload/documents?bogus=1",
        "base, metadata, name, priority, requested_by, source, tags, tenant",
    ),
]


async def test_a_parameter_that_is_not_known_is_refused(http: httpx.AsyncClient) -> None:
    for verb, path, known in BOGUS:
        answer = await http.request(verb, path)
        assert answer.status_code == 422, path
        assert (
            answer.json()["detail"]
            == f"There is no parameter 'bogus'; the parameters are: {known}."
        )
        assert [each["field"] for each in answer.json()["fields"]] == ["query.bogus"]


async def test_only_what_failed_is_tried_again(scene: Scene, http: httpx.AsyncClient) -> None:
    source = await brought(scene, http)
    answer = await http.post(f"/knowledge-sources/{source}/retry")
    assert (answer.status_code, answer.json()["jobCount"]) == (202, 1)
    progress = (await http.get(f"/knowledge-sources/{source}/progress")).json()
    assert (progress["pending"], progress["completed"], progress["failed"]) == (1, 2, 0)
    await scene.drain()
    progress = (await http.get(f"/knowledge-sources/{source}/progress")).json()
    assert (progress["failed"], progress["state"]) == (1, "partial")


async def test_what_is_under_way_is_cancelled(http: httpx.AsyncClient) -> None:
    answer = await http.post("/upload/documents", files=files(8))
    [source] = answer.json()["knowledgeSourceIds"]
    ended = await http.post(f"/knowledge-sources/{source}/cancel")
    assert ended.json() == {"cancelled": 8}
    progress = (await http.get(f"/knowledge-sources/{source}/progress")).json()
    assert (progress["cancelled"], progress["state"]) == (8, "cancelled")
    again = await http.post("/upload/documents", files=files(8))
    assert again.json()["jobCount"] == 8


async def test_skipped_is_a_state_of_its_own(scene: Scene, http: httpx.AsyncClient) -> None:
    form = [("files", (name, b"")) for name in ("a.txt", "b.md")]
    answer = (await http.post("/upload/documents?base=plant", files=form)).json()
    [source] = answer["knowledgeSourceIds"]
    await scene.drain()
    [first, second] = (await http.get("/documents?state=skipped")).json()["documents"]
    assert {first["path"], second["path"]} == {"a.txt", "b.md"}
    assert {first["reason"], second["reason"]} == {"empty"}
    ways = [
        *(f"/knowledge-sources/{source}/progress", "/knowledge-bases/plant/progress"),
        *("/knowledge-progress", f"/knowledge-progress?batch={answer['batch']}"),
    ]
    for path in ways:
        told = (await http.get(path)).json()
        assert (told["total"], told["skipped"], told["completed"]) == (2, 2, 0), path
        assert told["state"] == "skipped", path
    events = {"accept": "text/event-stream"}
    for path in (f"/documents/{first['id']}", f"/knowledge-sources/{source}/progress"):
        # It is final: a stream would end by itself after it.
        text = (await http.get(path, headers=events)).text
        assert '"state":"skipped"' in text, path
    again = await http.post("/upload/documents?base=plant", files=[("files", ("a.txt", b"Pumps."))])
    assert again.json()["jobCount"] == 1
    await scene.drain()
    told = (await http.get(ways[0])).json()
    assert (told["skipped"], told["completed"], told["state"]) == (1, 1, "completed")


async def test_progress_of_all_is_told_since_a_time(scene: Scene, http: httpx.AsyncClient) -> None:
    source = await brought(scene, http)
    await scene.rows(
        "UPDATE k.document SET created_at = now() - interval '2 hours' WHERE path = 'pumps.md'"
    )
    other = {"name": "other", "text": "A text in another base.", "base": "other"}
    assert (await http.post("/upload/text", json=other)).status_code == 202
    for since, total in (("1h", 3), ("3h", 4)):
        told = (await http.get(f"/knowledge-progress?since={since}")).json()
        assert told["total"] == total
    assert (await http.get("/knowledge-progress?since=soon")).status_code == 422
    batch = (await http.get(f"/knowledge-sources/{source}")).json()["batch"]
    both = await http.get(f"/knowledge-progress?since=1h&batch={batch}")
    assert (both.status_code, both.json()["fields"][0]["field"]) == (422, "query.since")


async def test_what_is_deleted_is_gone_from_every_answer(
    scene: Scene, http: httpx.AsyncClient
) -> None:
    source = await brought(scene, http)
    documents = (await http.get("/documents")).json()["documents"]
    pumps = next(each["id"] for each in documents if each["path"] == "pumps.md")
    assert (await http.delete(f"/documents/{pumps}")).json() == {"deleted": pumps}
    assert (await http.get(f"/documents/{pumps}")).status_code == 404
    assert (await http.delete(f"/documents/{pumps}")).status_code == 404
    assert (await http.get("/search?q=turbine&mode=words")).json() == {"hits": []}
    assert (await http.delete(f"/knowledge-sources/{source}")).status_code == 202
    assert (await http.get(f"/knowledge-sources/{source}/progress")).status_code == 404
    assert (await http.delete("/knowledge-bases/plant")).status_code == 202
    assert (await http.get("/knowledge-bases")).json() == {"bases": [], "after": None}
    await scene.drain()
    assert (await http.get("/knowledge-tenant")).json()["documents"] == 0


async def test_an_administrator_sets_what_a_tenant_may_have(http: httpx.AsyncClient) -> None:
    body = {"quotas": {"documents": 3}, "inline": False, "raw_days": 1.5}
    answer = await http.patch("/knowledge-tenant?tenant=small", json=body)
    assert answer.json() == {
        **{"tenant": "small", "active": True, "inline": False, "raw_days": 1.5},
        **{"background": None, "plan": None},
        **dict.fromkeys(("documents", "bytes", "chunks", "tokens"), 0),
        "quotas": {"documents": 3, "bytes": None, "chunks": None, "tokens": None},
    }
    refused = await http.post("/upload/documents?tenant=small", files=files(6))
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:penstock:quota-exceeded")
    assert "3 are allowed" in refused.json()["detail"]
    assert (await http.get("/knowledge-progress?tenant=small")).json()["total"] == 0
    await http.patch("/knowledge-tenant?tenant=small", json={"active": False})
    refused = await http.post("/upload/documents?tenant=small", files=files(1))
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:penstock:tenant-inactive")
    assert (await http.delete("/knowledge-tenant?tenant=small")).status_code == 202
    assert (await http.delete("/knowledge-tenant")).status_code == 422
