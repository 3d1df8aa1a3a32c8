"""Ways into our own network, all of them closed."""

import asyncio
import socket
from pathlib import Path

import pytest

from penstock import NotRetryable
from penstock.net.errors import FetchFailed, FetchRefused
from penstock.net.fetch import FetchLimits, fetch
from penstock.net.guard import Allowed, parse_address, unknown_host_error
from tests.net.conftest import Get, here
from tests.net.site import Site, answer, moved

SECRET = answer(b"the secret of this machine")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "127.0.0.1.",
        "ⓛocalhost",
        "①②⑦.⓪.⓪.①",
    ],
)
async def test_this_machine_is_not_fetched_however_it_is_written(
    site: Site, tmp_path: Path, host: str
) -> None:
    site.pages["/"] = SECRET
    with pytest.raises((FetchRefused, FetchFailed)):
        await fetch(site.at("/", host), tmp_path, allow=Allowed(ports=frozenset({site.port})))
    assert site.requests == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://169.254.169.254/latest/meta-data/", "where clouds keep the secrets"),
        ("http://10.0.0.1/", "a private network"),
        ("http://[fd00:ec2::254]/", "a private network"),
        ("http://[64:ff9b::a9fe:a9fe]/", "in disguise"),
        ("http://127.0.0.1:22/", "Port 22"),
        ("file:///etc/passwd", "Only http and https"),
        ("gopher://127.0.0.1/", "Only http and https"),
        ("ftp://example.org/", "Only http and https"),
        ("/etc/passwd", "Only http and https"),
        ("javascript:alert(1)", "Only http and https"),
        ("http://user:pw@example.org/", "has a password in it"),
        ("http://user@example.org/", "has a password in it"),
        ("http:///path", "names no server"),
        ("http://exa mple.org/", "names no server"),
        ("http://example.org:99999/", "Port 99999"),
        ("http://[::1/", "not a valid URL"),
        (f"http://example.org/{'x' * 9000}", "more than 8,192 characters"),
        ("", "Only http and https"),
    ],
)
async def test_fetch_refuses_non_public_urls_with_a_reason(
    tmp_path: Path, url: str, said: str
) -> None:
    with pytest.raises(FetchRefused, match=said) as refused:
        await fetch(url, tmp_path, allow=Allowed())
    assert isinstance(refused.value, NotRetryable)


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.2/",
        "http://2130706434/",
        "http://0177.0.0.2/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "//10.0.0.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "http://127.0.0.1:22/",
        "http://user:pw@127.0.0.1/",
    ],
)
async def test_nor_is_it_when_a_good_page_moves_there(site: Site, get: Get, target: str) -> None:
    site.pages["/"] = moved(target)
    with pytest.raises(FetchRefused) as refused:
        await get(site.at("/"))
    assert refused.value.fault in ("address", "url", "unknown_host")
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:127.0.0.1", "100.64.1.1"]
)
async def test_a_good_name_that_leads_to_a_private_address_is_refused(
    tmp_path: Path, site: Site, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return [address]

    with pytest.raises(FetchRefused) as refused:
        await fetch(
            site.at("/", "good.example"),
            tmp_path,
            allow=Allowed(ports=frozenset({site.port})),
            resolve=resolve,
        )
    assert site.requests == []
    # The one who asks learns neither where the name leads to nor that there is such a name.
    assert str(refused.value) == str(unknown_host_error("good.example", Allowed()))
    assert refused.value.fault == "unknown_host"
    assert "good.example" in caplog.text
    assert str(parse_address(address)) in caplog.text


async def test_name_of_nobody_is_refused_in_the_same_words(tmp_path: Path, site: Site) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    with pytest.raises(FetchRefused) as refused:
        await fetch(
            site.at("/", "nobody.example"),
            tmp_path,
            allow=Allowed(ports=frozenset({site.port})),
            resolve=resolve,
        )
    assert str(refused.value) == str(unknown_host_error("nobody.example", Allowed()))


async def test_message_has_no_query_of_a_signed_link(site: Site, get: Get) -> None:
    site.pages["/"] = moved("/secret?X-Amz-Signature=abcdef")
    with pytest.raises(FetchRefused) as refused:
        await get(site.at("/"))
    assert "/secret?… answers 404" in str(refused.value)
    assert "abcdef" not in str(refused.value)


async def test_name_is_resolved_once_against_dns_rebinding(tmp_path: Path, site: Site) -> None:
    """A name server that first gives a good address, then this machine's."""
    site.pages["/"] = SECRET
    answers = iter([["192.0.2.1"], ["127.0.0.1"]])
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    allow = Allowed(("192.0.2.0/24",), frozenset({site.port}))  # It stands for a public one.
    with pytest.raises(FetchFailed):
        await fetch(
            site.at("/", "rebind.example"),
            tmp_path,
            FetchLimits(connect=0.2),
            allow=allow,
            resolve=rebinding,
        )
    assert asked == ["rebind.example"]
    assert site.requests == []


async def test_redirect_to_the_same_name_is_checked_again(tmp_path: Path, site: Site) -> None:
    site.pages["/"] = moved("/secret")
    site.pages["/secret"] = SECRET
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    allow = Allowed(("127.0.0.1",), frozenset({site.port}))
    with pytest.raises(FetchRefused, match="has no server with the name"):
        await fetch(site.at("/", "rebind.example"), tmp_path, allow=allow, resolve=rebinding)
    assert len(site.requests) == 1


async def test_of_several_addresses_only_good_ones_are_tried(tmp_path: Path, site: Site) -> None:
    site.pages["/"] = answer(b"hello")

    async def several(host: str, port: int) -> list[str]:
        return ["10.0.0.1", "::1", "127.0.0.3", "127.0.0.1"]

    allow = Allowed(("127.0.0.1", "127.0.0.3"), frozenset({site.port}))
    page = await fetch(site.at("/", "good.example"), tmp_path, allow=allow, resolve=several)
    assert page.bytes == 5


async def test_a_host_that_is_allowed_by_name_is_fetched(tmp_path: Path, site: Site) -> None:
    site.pages["/"] = answer(b"hello")
    allow = Allowed(("wiki.corp",), frozenset({site.port}))
    page = await fetch(site.at("/", "wiki.corp"), tmp_path, allow=allow, resolve=here)
    assert page.bytes == 5
    assert f"Host: wiki.corp:{site.port}\r\n" in site.requests[0]


@pytest.mark.parametrize(
    ("code", "error"), [(socket.EAI_NONAME, FetchRefused), (socket.EAI_AGAIN, FetchFailed)]
)
async def test_unknown_name_differs_from_a_failed_lookup(
    tmp_path: Path, code: int, error: type[Exception]
) -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(code, "name")

    with pytest.raises(error, match=r"nowhere\.example"):
        await fetch("http://nowhere.example/", tmp_path, allow=Allowed(), resolve=unknown)


async def test_a_name_server_that_hangs_is_given_up(tmp_path: Path) -> None:
    async def hang(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(FetchFailed, match="could not be looked up"):
        await fetch(
            "http://slow.example/",
            tmp_path,
            FetchLimits(connect=0.1),
            allow=Allowed(),
            resolve=hang,
        )


async def test_a_proxy_of_the_environment_is_no_way_around(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", site.at(""))
    monkeypatch.setenv("ALL_PROXY", site.at(""))
    with pytest.raises(FetchRefused):
        await fetch("http://10.0.0.1/", tmp_path, allow=Allowed())
    assert site.requests == []
