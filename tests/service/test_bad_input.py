"""What is broken, too large, too slow or a trick is refused; nothing is stored, others go on."""

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import product
from urllib.parse import quote, urlencode

import httpx
import pytest

from penstock import Penstock
from penstock.service import Entry, Service, middleware
from penstock.service import server as service_server
from penstock.service.middleware import Bounds
from penstock.service.problems import expect_json
from penstock.service.server import ConnectionLimits
from tests.fixtures.service import OpenDoor, document, serving
from tests.fixtures.until import until

JSON = {"content-type": "application/json"}
GOOD = b'{"task":"greet","args":{"name":"Ada"}}'


@pytest.fixture(autouse=True)
def tasks(app: Penstock) -> None:
    @app.task(name="greet")
    async def greet(name: str, number: float = 0, more: object = None) -> None: ...


@pytest.fixture
async def bounded(app: Penstock) -> AsyncIterator[str]:
    """A real server whose bounds are narrow, but for those of time."""
    narrow, sockets = Bounds(body=2000, bodies=3000), ConnectionLimits(connections=5, head=2000)
    async with (
        Service(app, door=OpenDoor(), bounds=narrow) as service,
        serving(service, sockets=sockets) as url,
    ):
        yield url


@pytest.fixture
async def impatient(app: Penstock) -> AsyncIterator[str]:
    """One whose clients have little time to send."""
    async with (
        Service(app, door=OpenDoor(), bounds=Bounds(seconds=0.3)) as service,
        serving(service, sockets=ConnectionLimits(head_seconds=0.3)) as url,
    ):
        yield url


async def nothing_is_stored(app: Penstock) -> bool:
    return (await app.list()).jobs == ()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def told(url: str, *parts: bytes, path: bytes = b"/api/v1/jobs") -> bytes:
    """All that a server says to raw bytes, until it closes or has answered whole."""
    async with connected(url) as (reader, writer), asyncio.timeout(30):
        for part in parts:
            writer.write(part)
            await writer.drain()
        head = b""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b"closed"
        return head


def status(head: bytes) -> int | bytes:
    return head if head == b"closed" else int(head[9:12])


def posted(*headers: bytes, body: bytes = GOOD, path: bytes = b"/api/v1/jobs") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"host: localhost", *headers]
    return b"\r\n".join([*lines, b"", body])


BROKEN: list[tuple[bytes, int]] = [
    (b"", 422),
    (b"{", 400),
    (GOOD + b"x", 400),
    (b"\xff\xfe{\x00}\x00", 400),
    (b'{"task":"greet","args":{"name":"\xff"}}', 400),
    (b'{"task":"greet","args":{"name":"\\ud800"}}', 400),
    (b'{"task":"greet","args":{"name":"A","\\ud800":1}}', 400),
    (b'{"task":"greet","args":{"name":"A\\u0000"}}', 422),
    (b'{"task":"greet","args":{"name":"A","a\\u0000b":1}}', 422),
    (b'{"task":"greet","args":{"name":"A","number":NaN}}', 400),
    (b'{"task":"greet","args":{"name":"A","number":-Infinity}}', 400),
    (b'{"task":"greet","args":{"name":"A","number":1e999}}', 422),
    (b'{"task":"greet","args":{"name":"A","more":1e999}}', 422),
    (b'{"task":"greet","args":{"name":"A","more":%s}}' % (b"9" * 5000), 400),
    (b'{"task":"greet","args":{"name":"A"},"args":{"name":"B"}}', 400),
    (b'{"task":"greet","args":{"name":"A","name":"B"}}', 400),
    (b"[" * 100_000 + b"]" * 100_000, 400),
    (b'{"task":"greet","args":{"name":"A","more":' + b"[" * 500 + b"]" * 500 + b"}}", 422),
    (b"\xef\xbb\xbf" + GOOD, 400),
    (b"null", 422),
    (b"[]", 422),
    (b"7", 422),
]


async def test_a_body_that_is_broken_or_read_in_two_ways_is_refused(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    for body, expected in BROKEN:
        answer = await http.post("/jobs", content=body, headers=JSON)
        assert answer.status_code == expected, (body[:80], answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
    assert await nothing_is_stored(app)


async def test_a_body_that_is_no_json_is_not_taken(app: Penstock, http: httpx.AsyncClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                 "application/json; charset=latin-1", "application/jsonp", ""):  # fmt: skip
        answer = await http.post("/jobs", content=GOOD, headers={"content-type": kind})
        assert (answer.status_code, answer.json()["title"]) == (415, "Unsupported media type"), kind
    zipped = await http.post("/jobs", content=GOOD, headers={**JSON, "content-encoding": "gzip"})
    assert zipped.status_code == 415
    assert await nothing_is_stored(app)
    said = await http.post(
        "/jobs", content=GOOD, headers={"content-type": "Application/JSON; charset=UTF-8"}
    )
    assert said.status_code == 202


async def test_a_body_that_is_too_large_is_not_read(app: Penstock, bounded: str) -> None:
    plain = [b"content-type: application/json"]
    said = await told(bounded, posted(*plain, b"content-length: 2001", body=b""))
    chunks = [b"%x\r\n%s\r\n" % (500, b" " * 500)] * 6
    chunked = await told(bounded, posted(*plain, b"transfer-encoding: chunked", body=b""), *chunks)
    huge = await told(bounded, posted(*plain, b"content-length: 18446744073709551615", body=b""))

    assert status(said) == 413
    assert b"connection: close" in said
    assert status(chunked) == 413
    assert status(huge) == 413
    assert await nothing_is_stored(app)


async def test_a_route_that_takes_a_few_fields_takes_no_large_body(http: httpx.AsyncClient) -> None:
    long = {"name": "ada", "password": "x" * 20_000}
    answer = await http.post("/login", json=long)
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:penstock:too-large")
    for verb, path in (("POST", "/keys"), ("PATCH", "/queues/default"), ("PUT", "/limits?key=x")):
        assert (await http.request(verb, path, json=long)).status_code == 413, path


async def test_a_large_body_is_read_beside_the_event_loop(
    app: Penstock, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = []

    def read(body: bytes) -> None:
        readers.append(threading.current_thread() is threading.main_thread())
        expect_json(body)

    monkeypatch.setattr(middleware, "expect_json", read)
    jobs = [{"task": "greet", "args": {"name": "x" * 1000}}] * 100
    for number, is_on_loop in ((1, True), (100, False)):
        answer = await http.post("/bulk/jobs", json={"jobs": jobs[:number]})
        assert answer.status_code == 202, answer.text
        assert readers.pop() == is_on_loop
    broken = await http.post("/bulk/jobs", content=b'{"jobs": [' + b" " * 100_000, headers=JSON)
    assert (broken.status_code, broken.json()["type"]) == (400, "urn:penstock:broken-json")


async def test_bodies_that_are_too_much_together_are_put_off(app: Penstock, bounded: str) -> None:
    head = posted(b"content-type: application/json", b"content-length: 1900", body=b" " * 1800)
    async with connected(bounded) as (_, first):
        first.write(head)
        await first.drain()
        second = await told(bounded, head)

    assert status(second) == 503
    assert b"retry-after: 1" in second


async def test_slow_sender_is_cut_off_without_delaying_others(
    app: Penstock, impatient: str
) -> None:
    slow_body = posted(b"content-type: application/json", b"content-length: 100", body=b"{")

    # A machine that stands still makes everybody slow: then they ask again.
    async def is_too_slow() -> bool:
        return status(await told(impatient, slow_body)) == 408

    async def is_stored() -> bool:
        async with httpx.AsyncClient(base_url=impatient, timeout=30) as http:
            with suppress(httpx.HTTPError):
                answer = await http.post("/api/v1/jobs", content=GOOD, headers=JSON)
                return answer.status_code == 202
        return False

    async with connected(impatient) as (slow, writer):
        writer.write(b"POST /api/v1/jobs HTTP/1.1\r\nhost: lo")
        body = asyncio.create_task(until(is_too_slow))
        await until(is_stored)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(slow.readexactly(1), 30)
        await body
    async with connected(impatient) as (silent, _), asyncio.timeout(30):
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await silent.readexactly(1)
    assert {job.args["name"] for job in (await app.list()).jobs} == {"Ada"}


async def test_one_who_takes_nothing_of_an_answer_is_cut_off(app: Penstock) -> None:
    greet = app.tasks.get("greet")
    await app.enqueue_many(greet.prepare("x" * 50_000) for _ in range(200))

    async with (
        Service(app, door=OpenDoor()) as service,
        serving(service, sockets=ConnectionLimits(stalled_seconds=0.3)) as url,
        connected(url) as (_, writer),
    ):
        # A small window, and nobody reads: 10 MB cannot all lie in the kernel.
        writer.write(b"GET /api/v1/jobs?limit=200 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await writer.drain()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        async with asyncio.timeout(30):
            await _is_reset(writer)


async def _is_reset(writer: asyncio.StreamWriter) -> None:
    """Writing to a connection that was cut fails, in time."""
    while True:
        writer.write(b"\r\n")
        try:
            await writer.drain()
        except ConnectionError:
            return
        await asyncio.sleep(0.02)


async def test_a_head_that_is_too_large_is_refused(app: Penstock, bounded: str) -> None:
    long = b"x" * 2001
    for head in (
        posted(b"x-long: " + long),
        posted(*[b"x-%d: 1234567890" % n for n in range(200)]),
        b"GET /api/v1/jobs?text=" + long + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /api/v1/jobs?text=" + long,
    ):
        assert status(await told(bounded, head)) == 431, head[:60]
    assert await nothing_is_stored(app)


async def test_a_head_that_can_be_read_in_two_ways_is_refused(app: Penstock, server: str) -> None:
    kind = b"content-type: application/json"
    length = b"content-length: %d" % len(GOOD)
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
    chunked = b"transfer-encoding: chunked"
    for raw in (
        posted(kind, length, b"content-length: 7"),
        posted(kind, length, chunked, body=chunk),
        posted(kind, b"transfer-encoding: chunked, identity", body=chunk),
        posted(kind, b"content-length: -1"),
        posted(kind, b"content-length: +38"),
        posted(kind, b"content-length : 38"),
        posted(kind, chunked, body=b"-1\r\n" + chunk),
        posted(kind, length, b"x-a: b\r\n folded", b"x\0y: 1"),
        b"POST /api/v1/jobs HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"POST /api/v1/jobs\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    ):
        head = await told(server, raw)
        assert head == b"closed" or status(head) in (400, 411, 413), (raw[:120], head)
    assert await nothing_is_stored(app)
    trailed = posted(kind, chunked, body=chunk[:-2] + b"x-name: mallory\r\n\r\n")
    assert status(await told(server, trailed)) == 202
    [job] = (await app.list()).jobs
    assert job.requested_by == "tester"


async def test_paths_are_taken_as_they_stand(app: Penstock, server: str) -> None:
    for path in (b"//api/v1/jobs", b"/api//v1/jobs", b"/api/v1/jobs/", b"/api/v1/jobs;x=1",
                 b"/api/v1/x/../jobs", b"/api/v1/%2e%2e/v1/jobs", b"/api/v1/jobs%00",
                 b"/api/v1/jobs%2f", b"/API/v1/jobs", b"/api/v1/jobs%ff", b"*"):  # fmt: skip
        head = await told(
            server,
            posted(b"content-type: application/json", b"content-length: %d" % len(GOOD), path=path),
        )
        assert head == b"closed" or status(head) in (400, 404, 405, 415), (path, head)
    for verb in (b"TRACE", b"CONNECT", b"PUT", b"PROPFIND", b"BREW"):
        head = await told(server, verb + b" /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert head == b"closed" or status(head) in (400, 405), (verb, head)
    assert await nothing_is_stored(app)


async def test_an_address_that_is_not_utf8_is_refused(app: Penstock, server: str) -> None:
    async with httpx.AsyncClient(base_url=server, timeout=30) as http:
        schedule = {"task": "greet", "args": {"name": "Ada"}, "every": 60}
        for path, place in (
            ("/api/v1/jobs?text=%ff%fe", "query"),
            ("/api/v1/jobs?%ff=x", "query"),
            ("/api/v1/jobs?subject=a%c3&tag=%a9", "query"),
            ("/api/v1/live/queue/%ff", "path"),
            ("/api/v1/queues/a%80/lanes", "path"),
            ("/%ed%a0%80", "path"),
        ):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()["type"]) == (400, "urn:penstock:unreadable")
            assert answer.json()["detail"] == f"The {place} is not UTF-8."
        refused = await http.put("/api/v1/schedule?name=%fe", json=schedule)
        assert refused.status_code == 400
        assert list(await app.schedules()) == []
        # A replacement character is one like others, if a client sends it.
        for text in ("%ef%bf%bd", "caf%C3%A9", "100%25"):
            assert (await http.get(f"/api/v1/jobs?text={text}")).status_code == 200


async def test_probes_are_answered_while_all_connections_are_taken(app: Penstock) -> None:
    sockets = ConnectionLimits(connections=4, probes=3)
    async with Service(app, door=OpenDoor()) as service, serving(service, sockets=sockets) as url:
        many = [await asyncio.open_connection("127.0.0.1", httpx.URL(url).port) for _ in range(9)]
        try:
            for path, expected in (("/livez", 200), ("/readyz", 200), ("/api/v1/jobs", 503)):
                # Those that say nothing give way to one that asks.
                head = await told(
                    url, b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % path.encode()
                )
                assert status(head) == expected, path
                assert b"connection: close" in head
            reader, writer = many[0]
            writer.write(b"GET /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert status(await reader.readuntil(b"\r\n\r\n")) == 200
        finally:
            for _, writer in many:
                writer.close()


async def test_page_can_read_retry_after_while_connections_are_full(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A connection too many may say what it wants however slow this machine is.
    monkeypatch.setattr(service_server, "PROBE_TIMEOUT_S", 60.0)
    shop, stranger = {"origin": "https://shop.example"}, {"origin": "https://evil.example"}
    events = {"accept": "text/event-stream"}
    preflight = {"access-control-request-method": "GET"}
    live, jobs = "/api/v1/live/queue/default", "/api/v1/jobs"
    entry = Entry(origins=("https://shop.example",))
    async with (
        Service(app, door=OpenDoor(), entry=entry) as service,
        serving(service, sockets=ConnectionLimits(connections=1, head_seconds=60)) as url,
        connected(url) as (reader, writer),
        httpx.AsyncClient(base_url=url, timeout=30) as http,
    ):
        writer.write(
            b"GET %s HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
            % live.encode()
        )
        assert status(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)) == 200
        # That stream takes the only connection.
        empty = await http.get(live, headers=events | shop)
        with_ticket = await http.get(f"{live}?ticket=x", headers=events | stranger)
        refused = await http.get(jobs, headers=shop)
        of_no_event_stream = await http.get(jobs, headers=events)
        foreign = await http.get(jobs, headers=stranger)
        asked_first = await http.options(jobs, headers=preflight | shop)
        page = await http.get("/docs")
    for answer in (empty, with_ticket):
        assert (answer.status_code, answer.headers["content-type"]) == (
            200,
            "text/event-stream; charset=utf-8",
        )
        assert re.fullmatch(r"retry: \d+\n\n", answer.text)
    assert with_ticket.headers["access-control-allow-origin"] == "*"
    for answer in (refused, of_no_event_stream, foreign, page):
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:penstock:busy")
        assert answer.json()["detail"] == "All 1 connections are in use: try again in a moment."
        assert answer.headers["retry-after"] == "1"
    assert asked_first.status_code == 204
    for answer in (empty, refused, asked_first):
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        assert "retry-after" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in foreign.headers
    for answer in (empty, with_ticket, refused, foreign, asked_first, page):
        assert answer.headers["connection"] == "close"


async def test_excess_connections_are_closed_and_others_go_on(bounded: str) -> None:
    async with httpx.AsyncClient(base_url=bounded, timeout=30) as http:
        assert (await http.get("/api/v1/jobs")).status_code == 200
        many = [await asyncio.open_connection("127.0.0.1", http.base_url.port) for _ in range(8)]
        for reader, _ in many[4:]:
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await asyncio.wait_for(reader.readexactly(1), 30)
        assert (await http.get("/api/v1/jobs")).status_code == 200
        for _, writer in many:
            writer.close()


async def test_excess_requests_are_told_to_retry(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, has_begun = asyncio.Event(), asyncio.Event()
    ask = app.store.get

    async def slow(*args: object) -> object:
        has_begun.set()
        await let_go.wait()
        return await ask(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(app.store, "get", slow)
    async with (
        Service(app, door=OpenDoor(), bounds=Bounds(requests=1)) as service,
        serving(service) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as http,
    ):
        first = asyncio.create_task(http.get("/api/v1/jobs/1"))
        await has_begun.wait()
        second = await http.post("/api/v1/jobs", content=GOOD, headers=JSON)
        other = await http.post(
            "/api/v1/jobs", content=GOOD, headers={**JSON, "connection": "close"}
        )
        alive = await http.get("/livez")
        let_go.set()
        assert (await first).status_code == 404
        third = await http.post("/api/v1/jobs", content=GOOD, headers=JSON)

    assert (second.status_code, second.json()["type"]) == (503, "urn:penstock:busy")
    assert second.headers["retry-after"] == "1"
    assert "content-security-policy" in second.headers
    assert (other.status_code, other.json()) == (503, second.json())
    assert alive.status_code == 200
    assert third.status_code == 202
    assert json.loads(third.content)["id"]


async def test_body_of_many_fields_gets_a_quick_and_short_answer(
    app: Penstock, http: httpx.AsyncClient
) -> None:
    many = {f"k{number}": 1 for number in range(40_000)}
    twice = b'{"task":"greet",%s,"k39999":1}' % json.dumps(many).encode()[1:-1]
    bodies: list[tuple[str, bytes, int]] = [
        ("/jobs", twice, 400),
        ("/jobs", json.dumps({"task": "greet", **many}).encode(), 422),
        ("/jobs", json.dumps({"task": "greet", "args": many}).encode(), 422),
        ("/jobs", json.dumps({"task": "greet", "options": many}).encode(), 422),
        ("/bulk/actions", json.dumps(
            {"action": "cancel", "filter": {"state": ["x"] * 40_000}}).encode(), 422),
    ]  # fmt: skip
    for path, body, expected in bodies:
        began = time.process_time()
        answer = await http.post(path, content=body, headers=JSON)
        # Comparing each field with each other takes more than ten seconds.
        assert time.process_time() - began < 5, body[:80]
        assert answer.status_code == expected, (body[:80], answer.text[:200])
        assert len(answer.content) < 20_000
        assert len(answer.json()["fields"]) <= 100
    assert await nothing_is_stored(app)


NASTY_VALUES = ("\0", "a\0b", "\ud800", "%", "'\"", "9" * 400, "-1", "http://[x", "2026-99-99", "")
HEADERS = ("origin", "host", "authorization", "cookie", "accept", "last-event-id",
           "idempotency-key", "x-csrf-token", "x-forwarded-for", "x-forwarded-proto",
           "traceparent", "if-none-match", "range")  # fmt: skip
NASTY_HEADERS = (b"http://[x", b"[", b"\xff\xfe", b",,;;==", b"Bearer \xff", b"0" * 400, b"")


def nasty_paths() -> list[str]:
    """Each GET route of the API, once for each parameter and each value that means no good."""
    paths = []
    for template, operations in document()["paths"].items():
        for parameter in operations.get("get", {}).get("parameters", ()):
            name = parameter["name"]
            required = {
                other["name"]: "1"
                for other in operations["get"]["parameters"]
                if other["in"] == "query" and other.get("required")
            }
            for value in NASTY_VALUES:
                text = quote(value, safe="", errors="surrogatepass")
                path = (
                    template.replace(f"{{{name}}}", text) if parameter["in"] == "path" else template
                )
                path = re.sub(r"\{[^}]*\}", "1", path).removeprefix("/api/v1")
                asked_for = required | ({name: value} if parameter["in"] == "query" else {})
                query = urlencode(asked_for, errors="surrogatepass")
                paths.append(f"{path}?{query}" if query else path)
    return paths


async def test_no_query_or_path_is_a_fault_of_the_service(http: httpx.AsyncClient) -> None:
    paths = [path for path in nasty_paths() if not path.startswith("/live")]
    assert len(paths) > 500
    for path in paths:
        answer = await http.get(path)
        assert answer.status_code < 500, (path, answer.text)


async def test_no_header_is_a_fault_of_the_service(http: httpx.AsyncClient) -> None:
    for name, value in product(HEADERS, NASTY_HEADERS):
        for verb in ("GET", "POST", "OPTIONS"):
            answer = await http.request(
                verb,
                "/jobs",
                headers={name.encode(): value},
                content=GOOD if verb == "POST" else b"",
            )
            assert answer.status_code < 500, (verb, name, value, answer.text)


async def test_keys_of_meta_and_arguments_with_nul_are_refused(http: httpx.AsyncClient) -> None:
    for body in (
        {"task": "greet", "args": {"name": "Ada"}, "options": {"meta": {"a\0b": 1}}},
        {"task": "greet", "args": {"name": "Ada"}, "options": {"meta": {"a": {"b\0": 1}}}},
    ):
        answer = await http.post("/jobs", json=body)
        assert answer.status_code == 422, answer.text
