"""Files over HTTP: taken in as they come, waited for if they are few."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from penstock import Penstock
from penstock_apps.knowledge.http.uploads import rank_of_tenant
from tests.fixtures.until import until
from tests.knowledge.scene import Scene, worker_of
from tests.knowledge.upload.forms import CONTENT_TYPE, file, form, part

COUNTED = ("pending", "processing", "completed", "skipped", "failed", "cancelled")
FORM = {"content-type": CONTENT_TYPE}

Files = list[tuple[str, tuple[str, bytes]]]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_INLINE_SECONDS", "0.1")


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_FILE_BYTES", "1000")
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_REQUEST_FILES", "10")


def files(number: int, text: str = "A pump lifts water.") -> Files:
    return [
        ("files", (f"folder/{each}.txt", f"{text} Page {each}.".encode())) for each in range(number)
    ]


@pytest.mark.usefixtures("patient")
async def test_small_upload_returns_the_state_of_each_document(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    program = ("files", ("program", b"\x7fELF\x02\x01\x01" + bytes(60)))
    given = [*files(2), ("files", ("broken.pdf", b"%PDF-1.7 nothing")), program]
    async with worker_of(app):
        answer = await http.post("/upload/documents?base=manuals&tags=a&tags=b", files=given)
        again = await http.post("/upload/documents?base=manuals", files=given[:2])
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["jobCount"] == 4
    [source] = told["knowledgeSourceIds"]
    assert {each["path"]: (each["state"], each["reason"]) for each in told["documents"]} == {
        "folder/0.txt": ("completed", None),
        "folder/1.txt": ("completed", None),
        "broken.pdf": ("failed", "broken"),
        "program": ("skipped", "unsupported"),
    }
    assert again.status_code == 200
    assert (again.json()["jobCount"], again.json()["unchanged"]) == (0, 2)
    assert all(each["unchanged"] for each in again.json()["documents"])
    assert again.json()["knowledgeSourceIds"] == [source]
    of_base = "knowledge-bases/manuals/progress?since=24h"
    for path in (f"knowledge-sources/{source}/progress", of_base):
        progress = (await http.get(path)).json()
        assert sum(progress[each] for each in COUNTED) == progress["total"] == 4
        assert (progress["completed"], progress["skipped"], progress["failed"]) == (2, 1, 1)
        assert (progress["state"], progress["eta"]) == ("partial", 0.0)


async def test_a_large_upload_is_answered_at_once(server: str, http: httpx.AsyncClient) -> None:
    answer = await http.post("/upload/documents", files=files(230))
    assert answer.status_code == 202
    told = answer.json()
    assert (told["jobCount"], told["unchanged"], told["documents"]) == (230, 0, None)
    where = f"{server}{answer.headers['location']}"
    for path in (where, "/knowledge-progress", f"/knowledge-progress?batch={told['batch']}"):
        progress = (await http.get(path)).json()
        found = progress["total"], progress["pending"], progress["state"]
        assert found == (230, 230, "processing")
    batch = (await http.get(f"/batches/{told['batch']}")).json()
    assert (batch["total"], batch["state"]) == (230, "running")
    again = (await http.post("/upload/documents", files=files(230))).json()
    assert (again["jobCount"], again["unchanged"], again["pending"]) == (0, 0, 230)


@pytest.mark.usefixtures("quick")
async def test_what_is_on_its_way_is_not_told_as_what_is_there(
    scene: Scene, http: httpx.AsyncClient
) -> None:
    first = (await http.post("/upload/documents", files=files(2))).json()
    [source] = first["knowledgeSourceIds"]
    await scene.drain()
    progress = (await http.get(f"/knowledge-sources/{source}/progress")).json()
    assert progress["completed"] == 2
    await http.post("/upload/documents", files=files(5))
    told = (await http.post("/upload/documents", files=files(6))).json()
    assert (told["jobCount"], told["pending"], told["unchanged"]) == (1, 3, 2)
    # The source knows of all, the batch of its own.
    assert told["knowledgeSourceIds"] == [source]
    progress = (await http.get(f"/knowledge-sources/{source}/progress")).json()
    assert (progress["pending"], progress["state"]) == (4, "processing")


async def test_what_arrived_before_the_connection_broke_stays(
    server: str, http: httpx.AsyncClient
) -> None:
    whole = [file(f"{each}.txt", b"A valve.") for each in range(150)]
    gone = asyncio.Event()

    async def cut() -> AsyncIterator[bytes]:
        yield b"".join(whole[:120]) + whole[120][:-20]
        await gone.wait()

    async def received() -> int:
        return int((await http.get("/knowledge-progress")).json()["total"])

    async with httpx.AsyncClient(base_url=server, timeout=60) as client:
        url = "/api/v1/upload/documents?name=valves"
        sending = asyncio.create_task(client.post(url, content=cut(), headers=FORM))
        await until(received, what="a group of files")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    async def all_that_came() -> bool:
        return await received() == 120

    await until(all_that_came, what="the rest of what had arrived")
    answer = await http.post("/upload/documents?name=valves", content=form(*whole), headers=FORM)
    assert answer.status_code == 202
    told = answer.json()
    assert (told["pending"], told["unchanged"], told["jobCount"]) == (120, 0, 30)
    assert await received() == 150


async def test_form_fields_choose_the_base_and_a_key_finds_the_source(
    http: httpx.AsyncClient,
) -> None:
    given = {"base": "law", "tags": ["a", "b"], "metadata": '{"year": 2024}', "name": "codes"}
    many = files(6)
    answer = await http.post("/upload/documents?base=other&tags=c", data=given, files=many)
    assert answer.status_code == 202, answer.text
    assert (await http.get("/knowledge-bases/law/progress")).json()["total"] == 6
    assert (await http.get("/knowledge-bases/other/progress")).status_code == 404
    [source] = answer.json()["knowledgeSourceIds"]
    again = await http.post(f"/upload/documents?base=law&source={source}", files=many)
    assert (again.json()["jobCount"], again.json()["pending"]) == (0, 6)
    sources = [
        (
            await http.post(
                "/upload/documents?base=law", files=many, headers={"idempotency-key": key}
            )
        ).json()["knowledgeSourceIds"]
        for key in ("one", "two", "one")
    ]
    assert sources[0] == sources[2] != sources[1]


# Content, headers, and what is answered.
REFUSED: dict[str, tuple[bytes, dict[str, str], int, str]] = {
    "json": (b"{}", {"content-type": "application/json"}, 415, "upload-refused"),
    "empty": (form(), FORM, 422, "does-not-fit"),
    "cut": (file("a", b"x"), FORM, 400, "upload-refused"),
    "broken": (b"nothing of a form", FORM, 400, "upload-refused"),
    "unknown field": (
        form(part('form-data; name="bases"', b"x"), file("a", b"x")),
        FORM,
        422,
        "does-not-fit",
    ),
    "late field": (
        form(file("a", b"x"), part('form-data; name="base"', b"x")),
        FORM,
        422,
        "does-not-fit",
    ),
    "encoded": (form(file("a", b"x")), {**FORM, "content-encoding": "gzip"}, 415, "unsupported"),
}


async def test_what_is_no_upload_is_refused_with_a_reason(http: httpx.AsyncClient) -> None:
    for content, headers, status, word in REFUSED.values():
        answer = await http.post("/upload/documents", content=content, headers=headers)
        assert answer.status_code == status, answer.text
        assert word in answer.json()["type"]
        assert answer.json()["detail"]
    assert (await http.post("/upload/documents?source=77", files=files(1))).status_code == 404
    assert (await http.get("/knowledge-sources/77/progress")).status_code == 404


@pytest.mark.usefixtures("impatient")
async def test_a_small_upload_that_takes_long_is_answered_at_the_limit(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.post("/upload/documents", files=files(2))
    assert answer.status_code == 202
    assert [each["state"] for each in answer.json()["documents"]] == ["pending", "pending"]
    await http.patch("/knowledge-tenant?tenant=hasty", json={"inline": False})
    answer = await http.post("/upload/documents?tenant=hasty", files=files(2))
    assert (answer.status_code, answer.json()["documents"]) == (202, None)


@pytest.mark.usefixtures("strict")
async def test_files_that_are_too_large_are_left_out_and_named(http: httpx.AsyncClient) -> None:
    large = ("files", ("large.txt", b"x" * 2000))
    answer = await http.post("/upload/documents", files=[*files(7), large])
    assert (answer.status_code, answer.json()["jobCount"]) == (202, 7)
    [refused] = answer.json()["refused"]
    assert (refused["path"], refused["reason"]) == ("large.txt", "too_large")
    assert (await http.post("/upload/documents", files=[large])).status_code == 413
    answer = await http.post("/upload/documents?name=many", files=files(20))
    assert answer.status_code == 413
    assert answer.json()["about"]["taken"] == 10
    [source] = {answer.json()["about"]["source"]}
    assert (await http.get(f"/knowledge-sources/{source}/progress")).json()["total"] == 10


@pytest.mark.usefixtures("quick")
async def test_second_file_of_one_name_is_refused_if_it_differs(http: httpx.AsyncClient) -> None:
    first, second = file("readme.md", b"A pump."), file("readme.md", b"A valve.")
    # With a group of others between them, which stores the first before the second comes.
    others = [file(f"{each}.txt", b"A pipe.") for each in range(120)]
    content = form(first, *others, second, first)
    answer = await http.post("/upload/documents", content=content, headers=FORM)
    told = answer.json()
    assert (answer.status_code, told["jobCount"], told["refusedCount"]) == (202, 121, 1)
    [refused] = told["refused"]
    assert (refused["path"], refused["reason"]) == ("readme.md", "twice")
    assert "the first was kept. Send paths as file names" in refused["error"]
    found = (await http.get("/documents", params={"limit": 1000})).json()["documents"]
    assert {each["path"]: each["bytes"] for each in found}["readme.md"] == len(b"A pump.")


@pytest.mark.usefixtures("quick")
async def test_an_upload_whose_base_is_deleted_meanwhile_says_so(http: httpx.AsyncClient) -> None:
    whole = [file(f"{each}.txt", b"A valve.") for each in range(150)]
    is_deleted = asyncio.Event()

    async def sent() -> AsyncIterator[bytes]:
        yield b"".join(whole[:120])
        await is_deleted.wait()
        yield form(*whole[120:])

    async def received() -> int:
        return int((await http.get("/knowledge-progress")).json()["total"])

    url = "/upload/documents?base=valves"
    sending = asyncio.create_task(http.post(url, content=sent(), headers=FORM))
    await until(received, what="a group of files")
    assert (await http.delete("/knowledge-bases/valves")).status_code == 202
    is_deleted.set()
    answer = await sending
    assert answer.status_code == 404
    assert "The knowledge base 'valves' was deleted meanwhile" in answer.json()["detail"]
    assert answer.json()["about"] == {"what": "knowledge base", "which": "valves"}


def test_a_share_of_tenants_is_always_the_same() -> None:
    places = [rank_of_tenant(f"tenant {each}") for each in range(1000)]
    assert places == [rank_of_tenant(f"tenant {each}") for each in range(1000)]
    assert 200 < sum(place < 0.25 for place in places) < 300


@pytest.mark.usefixtures("quick")
async def test_person_travels_from_upload_to_jobs_and_streams(
    scene: Scene, http: httpx.AsyncClient
) -> None:
    ada = {"x-name": "ada", "x-scopes": "enqueue"}
    sent = await http.post("/upload/documents", files=files(1), headers=ada)
    [source] = sent.json()["knowledgeSourceIds"]
    named = {"x-name": "key:web", "x-scopes": "enqueue,on_behalf"}
    text = {"name": "a", "text": "Pumps lift water."}
    assert (
        await http.post("/upload/text?requested_by=grace", json=text, headers=named)
    ).status_code == 202
    refused = await http.post("/upload/text?requested_by=grace", json=text, headers=ada)
    assert (refused.status_code, refused.json()["fields"][0]["field"]) == (403, "requested_by")

    documents = (await http.get("/documents")).json()["documents"]
    assert [each["requested_by"] for each in documents] == ["grace", "ada"]
    jobs = [await scene.app.get(each["job"]) for each in documents]
    assert [each.requested_by for each in jobs] == ["grace", "ada"]
    assert (await http.get(f"/knowledge-sources/{source}")).json()["requested_by"] == "ada"
    await scene.drain()
    events = {"accept": "text/event-stream"}
    for path in (f"/documents/{documents[1]['id']}", f"/knowledge-sources/{source}/progress"):
        assert '"requested_by":"ada"' in (await http.get(path, headers=events)).text
    # Whoever retries or deletes asks for what that takes.
    await http.delete(f"/knowledge-sources/{source}", headers={"x-name": "alan"})
    [removing] = (await scene.app.list(task="knowledge.remove")).jobs
    assert removing.requested_by == "alan"


def form_of(**fields: str) -> bytes:
    parts = [part(f'form-data; name="{name}"', value.encode()) for name, value in fields.items()]
    return form(*parts, file("x.txt", b"x"))


@pytest.mark.usefixtures("quick")
async def test_uploads_take_a_priority(scene: Scene, http: httpx.AsyncClient) -> None:
    text = {"name": "a", "text": "Pumps lift water.", "priority": 7}
    form = form_of(priority="-3", base="other")
    answers = [
        await http.post("/upload/documents?priority=5", files=files(1)),
        await http.post("/upload/documents", content=form, headers=FORM),
        await http.post("/upload/text", json=text),
        await http.post(
            "/upload/url",
            json={"url": "https://example.org/", "priority": 9},
            headers={"accept": "application/json"},
        ),
    ]
    assert [each.status_code for each in answers] == [202] * 4
    jobs = (await scene.app.list(task="knowledge.ingest")).jobs
    assert [each.priority for each in reversed(jobs)] == [5, -3, 7, 9]
    for wrong in ("101", "high"):
        answer = await http.post(f"/upload/documents?priority={wrong}", files=files(1))
        assert answer.status_code == 422
        form = form_of(priority=wrong)
        answer = await http.post("/upload/documents", content=form, headers=FORM)
        assert answer.status_code == 422
    for wrong in (101, "5", True):
        answer = await http.post("/upload/text", json=text | {"priority": wrong})
        assert answer.status_code == 422


@pytest.fixture
def without_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads of any size are waited for."""
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_BACKGROUND", "false")
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_WAIT_SECONDS", "100")


@pytest.mark.usefixtures("without_background")
async def test_without_background_an_upload_of_any_size_is_waited_for(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    async with worker_of(app):
        answer = await http.post("/upload/documents", files=files(30))
        # What is there, or on its way, has ended as well.
        again = await http.post("/upload/documents", files=files(30))
    assert (answer.status_code, answer.json()["jobCount"]) == (200, 30)
    assert answer.json()["documents"] is None
    assert (again.status_code, again.json()["unchanged"]) == (200, 30)
    progress = (await http.get("/knowledge-progress")).json()
    assert (progress["completed"], progress["state"]) == (30, "completed")


@pytest.fixture
def short_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_KNOWLEDGE_WAIT_SECONDS", "0.2")


@pytest.mark.usefixtures("short_of_time")
async def test_upload_that_is_waited_for_in_vain_is_answered_with_202(
    http: httpx.AsyncClient,
) -> None:
    off = {"background": False, "plan": "free"}
    told = (await http.patch("/knowledge-tenant?tenant=default", json=off)).json()
    assert (told["background"], told["plan"]) == (False, "free")
    answer = await http.post("/upload/documents", files=files(30))
    assert (answer.status_code, answer.json()["jobCount"]) == (202, 30)
    few = await http.post("/upload/documents", files=files(2, "Another pump."))
    assert (few.status_code, len(few.json()["documents"])) == (202, 2)
