"""How far it is, live: as events and over a socket."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.knowledge.http.test_upload import files
from tests.knowledge.scene import Scene


async def heard(http: httpx.AsyncClient, verb: str, path: str, **given: Any) -> list[Any]:
    """All events until the end."""
    headers = {"accept": "text/event-stream"}
    async with (
        asyncio.timeout(30),
        http.stream(verb, path, headers=headers, **given) as answer,
    ):
        assert answer.status_code == 200
        return [
            json.loads(line.removeprefix("data: "))
            async for line in answer.aiter_lines()
            if line.startswith("data: ")
        ]


async def test_progress_of_a_source_streams_until_its_end(
    scene: Scene, server: str, http: httpx.AsyncClient
) -> None:
    [source] = (await http.post("/upload/documents", files=files(8))).json()["knowledgeSourceIds"]
    listening = asyncio.create_task(heard(http, "GET", f"/knowledge-sources/{source}/progress"))
    async with connect(f"ws{server.removeprefix('http')}/api/v1/live") as socket:
        await socket.send(json.dumps({"subscribe": f"knowledge-source/{source}"}))
        first = json.loads(await socket.recv())
        assert (first["state"]["total"], first["state"]["state"]) == (8, "processing")
        await scene.drain()
        told = first
        while not told.get("final"):
            told = json.loads(await socket.recv())
    events = await listening
    for last in (told, events[-1]):
        assert last["final"]
        assert (last["state"]["completed"], last["state"]["state"]) == (8, "completed")
    versions = [event["version"] for event in events]
    assert len(set(versions)) == len(versions)
    seen = {"accept": "text/event-stream", "last-event-id": versions[-1]}
    answer = await http.get(f"/knowledge-sources/{source}/progress", headers=seen)
    assert answer.status_code == 204
    once = await http.get(
        f"/live/knowledge-source/{source}", headers={"accept": "application/json"}
    )
    assert once.json()["state"]["completed"] == 8
    assert (await http.get("/live/knowledge-source/999")).status_code == 404
    assert (await http.get("/live/knowledge-thing/1")).status_code == 422


async def test_an_address_is_told_of_until_its_end(scene: Scene, http: httpx.AsyncClient) -> None:
    # A name, whose address is known to who looks it up.
    body = {"url": "http://localhost/page"}
    plain = await http.post("/upload/url", json=body, headers={"accept": "application/json"})
    assert (plain.status_code, plain.json()["jobCount"]) == (202, 1)
    telling = asyncio.create_task(heard(http, "POST", "/upload/url", json=body))
    while not telling.done():
        await scene.drain()
        await asyncio.sleep(0.05)
    events = await telling
    last = events[-1]["state"]
    # An address of this machine's own is not fetched.
    assert (last["url"], last["state"]) == (body["url"], "failed")
    assert last["error"]
    wrong = await http.post("/upload/url", json={"url": "file:///etc/passwd"})
    assert wrong.status_code == 422


# Addresses, and the words of the answer.
SEEN = {
    "http://[::1": "is not a valid URL",
    "http://example.org:8080/": "PENSTOCK_KNOWLEDGE_FETCH_PORTS",
    "http://127.0.0.1/": "PENSTOCK_KNOWLEDGE_FETCH_PRIVATE",
    "http://[fd00::1]/": "a private network",
    "http://ada:secret@example.org/": "a password in it",
}


async def test_an_address_that_can_be_seen_to_be_refused_is_so_at_once(
    http: httpx.AsyncClient,
) -> None:
    for url, words in SEEN.items():
        answer = await http.post("/upload/url", json={"url": url})
        assert answer.status_code == 422, url
        assert words in answer.json()["detail"]
        assert [each["field"] for each in answer.json()["fields"]] == ["url"]
    assert (await http.get("/knowledge-bases")).json()["bases"] == []


@pytest.mark.usefixtures("quick")
async def test_allowed_private_url_is_accepted(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_FETCH_PRIVATE", "10.0.0.0/8")
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_FETCH_PORTS", "8080")
    body, json_wanted = {"url": "http://10.1.1.1:8080/"}, {"accept": "application/json"}
    answer = await http.post("/upload/url", json=body, headers=json_wanted)
    assert answer.status_code == 202


@pytest.mark.usefixtures("patient")
async def test_a_text_is_taken_in(scene: Scene, http: httpx.AsyncClient) -> None:
    body = {"name": "note", "text": "The gate opens at nine.", "base": "notes"}
    sending = asyncio.create_task(http.post("/upload/text", json=body))
    while not sending.done():
        await scene.drain()
        await asyncio.sleep(0.05)
    answer = await sending
    assert answer.status_code == 200
    [outcome] = answer.json()["documents"]
    assert (outcome["path"], outcome["state"], outcome["chunks"]) == ("note", "completed", 1)
