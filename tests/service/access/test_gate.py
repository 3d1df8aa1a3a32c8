"""What the gate refuses before anybody is asked for a key, and what goes out with every answer."""

from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from penstock import Penstock
from penstock.errors import ConfigError
from penstock.service import Entry, Service
from penstock.service.hosts import host_name
from tests.fixtures.database import Database
from tests.fixtures.service import serving as running
from tests.service.access.conftest import Asks, asking, served

JOBS = "/api/v1/jobs"


HOSTS = {
    "localhost": True,
    "localhost:8420": True,
    "LOCALHOST.": True,
    "127.0.0.1:1": True,
    "[::1]:8420": True,
    "evil.example": False,
    "localhost.evil.example": False,
    "": False,
    "localhost@evil.example": False,
    "[::2]": False,
}


async def test_only_names_of_loopback_are_known_unless_told(admin: httpx.AsyncClient) -> None:
    for host, is_known in HOSTS.items():
        answer = await admin.get(JOBS, headers={"host": host})
        assert answer.status_code == (200 if is_known else 400), host
        if not is_known:
            assert answer.json()["type"] == "urn:penstock:unknown-host"
        assert (await admin.get("/livez", headers={"host": host})).status_code == 200


async def test_a_header_that_stands_twice_is_refused(admin: httpx.AsyncClient) -> None:
    for name, value in (
        ("host", "localhost"),
        ("origin", "http://localhost"),
        ("authorization", admin.headers["authorization"]),
        ("content-type", "application/json"),
        ("x-csrf-token", "x"),
    ):
        for other in (value, "evil.example"):
            twice = [*httpx.Headers(admin.headers).multi_items()]
            twice = [each for each in twice if each[0] not in (name, "host")]
            twice += [("host", "localhost")] if name != "host" else []
            for path in (JOBS, "/livez"):
                request = httpx.Request(
                    "GET", f"http://localhost{path}", headers=[*twice, (name, value), (name, other)]
                )
                answer = await admin.send(request)
                assert (answer.status_code, answer.json()["type"]) == (
                    400,
                    "urn:penstock:header-twice",
                ), (name, other, path)


def test_names_are_those_that_are_given() -> None:
    entry = Entry(hosts=("jobs.example.com", "*.shop.example"))
    assert entry.knows("jobs.example.com:443")
    assert entry.knows("a.shop.example")
    assert not entry.knows("shop.example")
    assert not entry.knows("localhost")
    assert Entry(hosts=("*",)).knows("anything")
    assert host_name("[2001:db8::1]:80") == "2001:db8::1"


@pytest.mark.parametrize(
    "given",
    [
        {"hosts": ("https://x",)},
        {"hosts": ("",)},
        {"origins": ("shop.example",)},
        {"origins": ("https://shop.example/",)},
        {"proxies": ("proxy.local",)},
        {"edge_header": "x-user"},
    ],
    ids=str,
)
def test_an_entry_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Entry(**given)


def test_the_environment_says_what_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOSTS", "jobs.example.com, localhost")
    monkeypatch.setenv("PENSTOCK_PROXIES", "10.0.0.0/8")
    monkeypatch.setenv("PENSTOCK_EDGE_HEADER", "x-user")
    found = Entry.of(hosts=["a.example"])
    assert found == Entry(hosts=("a.example",), proxies=("10.0.0.0/8",), edge_header="x-user")
    assert Entry.of().hosts == ("jobs.example.com", "localhost")


async def test_every_answer_is_sealed(service: Service) -> None:
    async with asking(service) as client:
        for path in ("/livez", JOBS, "/nothing", "/api/v1/login"):
            headers = (await client.get(path)).headers
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "access-control-allow-origin" not in headers
            assert "strict-transport-security" not in headers


async def test_a_fault_of_ours_is_sealed_too_and_tells_nothing(
    service: Service, app: Penstock, asks: Asks, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await asks("read")
    key = client.headers["authorization"]

    async def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("the secret of the house")

    monkeypatch.setattr(app.store, "list_jobs", broken)
    transport = httpx.ASGITransport(service.asgi, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as raw:
        answer = await raw.get(JOBS, headers={"authorization": key})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "content-security-policy" in answer.headers
    assert "secret" not in answer.text


@pytest.fixture
def entry() -> Entry:
    return Entry(hosts=("jobs.example",), origins=("https://shop.example",), proxies=("10.0.0.1",))


async def test_a_page_that_was_named_may_ask_with_a_key(database: Database, entry: Entry) -> None:
    async with Service(served(Penstock(database.url)), entry=entry) as service:
        key = (await service.asgi.state.runtime.app.create_key("page", scopes=["read"])).secret
        transport = httpx.ASGITransport(service.asgi, client=("10.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://jobs.example") as http:
            asked = {"access-control-request-method": "GET"}
            ours = {"origin": "https://shop.example"}
            allowed = await http.options(JOBS, headers=asked | ours)
            assert allowed.status_code == 204
            assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
            refused = await http.options(JOBS, headers=asked | {"origin": "https://evil.example"})
            assert refused.status_code == 403
            assert "access-control-allow-origin" not in refused.headers
            answer = await http.get(JOBS, headers=ours | {"authorization": f"Bearer {key}"})
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == "https://shop.example"
            assert "access-control-allow-credentials" not in answer.headers
            by_tls = await http.get("/livez", headers={"x-forwarded-proto": "https"})
            assert by_tls.headers["strict-transport-security"] == "max-age=31536000"


async def test_a_page_that_was_named_can_read_that_the_server_is_full(database: Database) -> None:
    shop = {"origin": "https://shop.example"}
    entry = Entry(origins=("https://shop.example",))
    async with (
        Service(served(Penstock(database.url)), entry=entry) as service,
        running(service) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as http,
    ):
        service.request_count.requests = service.request_count.max_requests
        service.request_count.openings = service.request_count.max_openings
        asked = {"access-control-request-method": "GET"}
        assert (await http.options(JOBS, headers=asked | shop)).status_code == 204
        refused = await http.get(JOBS, headers=shop)
        events = {"accept": "text/event-stream"}
        told_to_come_back = await http.get("/api/v1/live/job/1", headers=events | shop)
        assert (refused.status_code, told_to_come_back.status_code) == (503, 200)
        for answer in (refused, told_to_come_back):
            assert answer.headers["access-control-allow-origin"] == "https://shop.example"
            assert answer.headers["vary"] == "origin"
            assert "retry-after" in answer.headers["access-control-expose-headers"]
        stranger = await http.get(JOBS, headers={"origin": "https://evil.example"})
        assert stranger.status_code == 503
        assert "access-control-allow-origin" not in stranger.headers


async def test_mounted_under_a_path_it_is_closed_too(database: Database) -> None:
    from fastapi import FastAPI

    async with Service(served(Penstock(database.url))) as service:
        web = FastAPI()
        web.mount("/queue", service.asgi)
        transport = httpx.ASGITransport(web)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            assert (await http.get("/queue/livez")).status_code == 200
            for path in ("/queue/api/v1/jobs", "/queue/nothing", "/queue//livez", "/queue/livez/"):
                assert (await http.get(path)).status_code == 401, path


async def test_a_socket_is_refused_in_the_same_words(service: Service, app: Penstock) -> None:
    made = await app.create_key("page", scopes=["read"])
    good = {"authorization": f"Bearer {made.secret}"}
    async with running(service) as url:
        address = url.replace("http", "ws", 1) + "/api/v1/live"
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer x"}, 401),
            (good | {"origin": "https://evil.example"}, 403),
        ):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(address, additional_headers=headers):
                    pass
            assert refused.value.response.status_code == status
            assert b"urn:penstock:" in refused.value.response.body
        async with connect(address, additional_headers=good):
            pass
