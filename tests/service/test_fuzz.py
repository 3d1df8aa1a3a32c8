"""Every route with hostile values in each place that takes one: no answer is a fault of ours."""

import json
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx
import pytest

from penstock import Penstock
from tests.fixtures.service import document
from tests.service.access.calls import CALLS, Call, Things, make_things, url_of

TEXTS: Final = (
    *("", "\0", "a\0b", "\ud800", "\u202e\U0010ffff", "%00", "'\"", "-1", "1.5", "1e999", "nan"),
    *("9" * 18, "9" * 19, "9" * 30, "9" * 400, "x" * 5000, "http://[x", "١٢"),
    # Moments at the ends of what Python and Postgres can hold, and beyond.
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-99-99T00:00:00Z"),
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "infinity", "4713-01-01 BC"),
    *(
        "0/second",
        "1/0s",
        "1e308/second",
        "* * * * * * *",
        "59 23 31 2 *",
        "@reboot",
        "Mars/Phobos",
    ),
)
IS_LONG: Final = bool(os.environ.get("PENSTOCK_LONG"))
NUMBERS: Final = (0, -1, 1, 2**31, 2**63, 10**30, -(2**63) - 1, 1e308, 1e-308, 0.1)
OTHERS: Final = (None, True, [], {}, [[]], [None], {"\0": 1}, {"a": {"b": "\0"}}, ["\0"], ["x"] * 9)
# The short form tries every fourth value in a place, the next place those after them.
EVERY: Final = 4
# Passwords cost a tenth of a second each by design, and tests of logins try them.
LEFT_OUT: Final = {("POST", "/login"), ("POST", "/logout"), ("POST", "/people"),
                   ("PATCH", "/people/{name}")}  # fmt: skip
HEADERS: Final = ("accept", "accept-encoding", "authorization", "cookie", "last-event-id",
                  "idempotency-key", "if-none-match", "origin", "host", "range", "traceparent",
                  "tracestate", "x-csrf-token", "x-forwarded-for", "x-forwarded-proto")  # fmt: skip
HEADER_VALUES: Final = (b"", b"\xff\xfe", b"http://[x", b",,;;==", b"0" * 400, b"*/*;q=nan",
                        b"application/openmetrics-text; version=x; q=", b"text/plain;escaping=\xff",
                        b"application/openmetrics-text;version=1.0.0;escaping=nonsense",
                        b"text/plain;version=1.0.0;escaping=", b"text/plain;version=a.b",
                        b"00-0-0-zz")  # fmt: skip


@pytest.fixture
async def things(app: Penstock) -> Things:
    """Something of everything, by its name."""

    @app.task(name="work")
    async def work(text: str = "", number: float = 0, more: object = None) -> None: ...

    @app.task(name="fail", max_attempts=1)
    async def fail(text: str) -> None:
        raise ValueError(text)

    things = await make_things(app, "globex")
    things.names.update(key="nobody42", person="grace")
    return things


def some(values: Sequence[Any], number: int, every: int = EVERY) -> Sequence[Any]:
    """The values to try in a place: in the long form all, else each in some of the places."""
    return values if IS_LONG else values[number % every :: every]


def operations() -> Iterator[tuple[str, str, Call, dict[str, Any]]]:
    """Verb, address, a call that is answered, and what the document says of it."""
    for (verb, path), call in CALLS.items():
        if (verb, path) not in LEFT_OUT:
            whole = f"/api/v1{path}" if path.startswith("/") else f"/{path}"
            yield verb, path, call, document()["paths"][whole][verb.lower()]


def fields_of(schema: dict[str, Any], depth: int = 0) -> Iterator[tuple[str, ...]]:
    """The places of a body, those of objects within it too."""
    if name := schema.get("$ref"):
        schema = document()["components"]["schemas"][name.rpartition("/")[2]]
    for other in schema.get("anyOf", ()):
        yield from fields_of(other, depth)
    for name, inner in schema.get("properties", {}).items():
        yield (name,)
        if depth < 3:
            yield from ((name, *rest) for rest in fields_of(inner, depth + 1))


def with_value(body: Any, place: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The body with a value in one place."""
    name, *rest = place
    body = body if isinstance(body, dict) else {}
    return {**body, name: with_value(body.get(name), tuple(rest), value) if rest else value}


async def ask(http: httpx.AsyncClient, verb: str, url: str, **given: Any) -> None:
    """Ask once: whatever comes back is no fault of the service."""
    body = given.pop("body", None)
    content = b"" if body is None else json.dumps(body).encode()
    headers = httpx.Headers({"content-type": "application/json", "accept": "application/json"})
    if isinstance(more := given.pop("headers", {}), list):
        headers = httpx.Headers([*headers.raw, *more])
    else:
        headers.update(more)
    answer = await http.request(verb, url, headers=headers, content=content, **given)
    assert answer.status_code < 500, (verb, url[:300], str(body)[:300], headers, answer.text)


async def test_no_parameter_is_a_fault_of_the_service(
    http: httpx.AsyncClient, things: Things
) -> None:
    asked = places = 0
    for verb, path, call, told in operations():
        for parameter in told.get("parameters", ()):
            places += 1
            for value in some(TEXTS, places) if parameter["in"] in ("query", "path") else ():
                text = quote(value, safe="", errors="surrogatepass")
                url = url_of(path, call, things)
                query = things.fill(call.query)
                if parameter["in"] == "path":
                    filled = {name: things.fill(each) for name, each in call.path.items()}
                    url = url_of(path, Call(filled | {parameter["name"]: text}), things)
                else:
                    query = query | {parameter["name"]: value}
                whole = f"{url}?{urlencode(query, errors='surrogatepass')}" if query else url
                body = things.fill(call.body)
                await ask(http, verb, f"http://localhost{whole}", body=body)
                asked += 1
    assert asked > 500


async def test_no_field_of_a_body_is_a_fault_of_the_service(
    http: httpx.AsyncClient, things: Things
) -> None:
    asked = places = 0
    for verb, path, call, told in operations():
        if "requestBody" not in told:
            continue
        url, query = url_of(path, call, things), things.fill(call.query)
        [content] = told["requestBody"]["content"].values()
        for place in dict.fromkeys(fields_of(content["schema"])):
            places += 1
            for value in some((*TEXTS, *NUMBERS, *OTHERS), places):
                body = with_value(things.fill(call.body), place, value)
                if place[0] == "filter":
                    body.pop("ids", None)  # It is one or the other.
                await ask(http, verb, f"http://localhost{url}", params=query, body=body)
                asked += 1
    assert asked > 500


async def end_streams(app: Penstock, path: str, things: Things) -> None:
    """A stream of events ends if nothing more can come."""
    if path.startswith("/live/"):
        await app.cancel(things.names["job"])


async def test_no_header_of_any_route_is_a_fault_of_the_service(
    app: Penstock, http: httpx.AsyncClient, things: Things
) -> None:
    asked = places = 0
    for verb, path, call, told in operations():
        url, query = url_of(path, call, things), things.fill(call.query)
        await end_streams(app, path, things)
        own = [each["name"] for each in told.get("parameters", ()) if each["in"] == "header"]
        for name in dict.fromkeys([*HEADERS, *own]):
            places += 1
            for value in some(HEADER_VALUES, places, len(HEADER_VALUES)):
                headers = {name.encode(): value}
                await ask(
                    http, verb, f"http://localhost{url}", params=query, headers=headers,
                    body=things.fill(call.body),
                )  # fmt: skip
                asked += 1
    assert asked > 500


@pytest.mark.parametrize("seed", range(40 if IS_LONG else 4))
async def test_random_headers_and_parameters_cause_no_fault(
    seed: int, app: Penstock, http: httpx.AsyncClient, things: Things
) -> None:
    chance = random.Random(seed)
    for verb, path, call, told in operations():
        await end_streams(app, path, things)
        names = [each["name"] for each in told.get("parameters", ()) if each["in"] == "query"]
        query = [*things.fill(call.query).items()]
        for _ in range(chance.randrange(4)):
            # Known and unknown names, some of them twice.
            query.append((chance.choice([*names, "x", "\0", "ticket"]), chance.choice(TEXTS)))
        headers = [
            (name.encode(), chance.choice(HEADER_VALUES))
            for name in chance.choices(HEADERS, k=chance.randrange(5))
        ]
        text = urlencode(query, errors="surrogatepass")
        url = f"http://localhost{url_of(path, call, things)}?{text}"
        await ask(http, verb, url, headers=headers, body=things.fill(call.body))


async def test_moments_that_the_database_cannot_hold_are_refused(http: httpx.AsyncClient) -> None:
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        for path in ("/dead", "/audit"):
            answer = await http.get(path, params={"since": moment})
            assert answer.status_code == 422, answer.text
            assert "UTC" in answer.json()["detail"]
