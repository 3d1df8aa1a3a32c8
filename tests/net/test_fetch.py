"""Pages as servers give them."""

import asyncio
import gzip
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha256
from pathlib import Path

import pytest

from penstock import ConfigError, NotRetryable, Retryable
from penstock.net.errors import FetchFailed, FetchRefused
from penstock.net.fetch import FetchLimits, fetch
from penstock.net.guard import Allowed
from tests.net.conftest import Get, here
from tests.net.site import Site, answer, moved

HTML = "<h1>Grüße</h1>".encode()


async def test_a_page_becomes_a_file(site: Site, get: Get, tmp_path: Path) -> None:
    site.pages["/a?b=c"] = answer(
        HTML,
        content_type='Text/HTML; charset="UTF-8"',
        etag='"1"',
        last_modified="Mon, 16 Nov 2026 00:00:00 GMT",
    )
    page = await get(site.at("/a?b=c#part"))
    assert page.path.read_bytes() == HTML
    assert page.path.parent == tmp_path
    assert (page.bytes, page.digest) == (len(HTML), sha256(HTML).digest())
    assert (page.media_type, page.charset) == ("text/html", "utf-8")
    assert (page.etag, page.last_modified) == ('"1"', "Mon, 16 Nov 2026 00:00:00 GMT")
    assert page.final_url == site.at("/a?b=c")


async def test_the_server_hears_who_asks(site: Site, get: Get) -> None:
    site.pages["/"] = answer()
    await get(site.at("/"), user_agent="Handbook/2")
    assert "User-Agent: Handbook/2\r\n" in site.requests[0]
    assert f"Host: 127.0.0.1:{site.port}\r\n" in site.requests[0]


async def test_a_page_without_a_type_is_bytes(site: Site, get: Get) -> None:
    site.pages["/"] = answer(b"x")
    page = await get(site.at("/"))
    assert (page.media_type, page.charset) == ("application/octet-stream", None)


async def test_a_declared_encoding_that_is_none_is_not_kept(site: Site, get: Get) -> None:
    site.pages["/"] = answer(HTML, content_type="text/html; charset*=utf-8''a%00b")
    assert (await get(site.at("/"))).content_type == "text/html"


async def test_a_packed_page_is_stored_unpacked(site: Site, get: Get) -> None:
    site.pages["/"] = answer(gzip.compress(HTML), content_encoding="gzip")
    page = await get(site.at("/"))
    assert page.path.read_bytes() == HTML


async def test_a_page_in_chunks_is_whole(site: Site, get: Get) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    site.pages["/"] = head + b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    page = await get(site.at("/"))
    assert page.path.read_bytes() == b"hello world"


async def test_moves_are_followed_also_by_half_an_address(site: Site, get: Get) -> None:
    site.pages["/a/b"] = moved("../c", "301 Moved Permanently")
    site.pages["/c"] = moved(f"//127.0.0.1:{site.port}/d", "307 Temporary Redirect")
    site.pages["/d"] = answer(HTML)
    page = await get(site.at("/a/b"))
    assert page.path.read_bytes() == HTML
    assert page.final_url == site.at("/d")


async def test_a_page_that_moves_for_ever_is_refused(site: Site, get: Get) -> None:
    site.pages["/"] = moved("/")
    with pytest.raises(FetchRefused, match="more than 5 times") as refused:
        await get(site.at("/"))
    assert refused.value.fault == "redirects"
    assert len(site.requests) == 6


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "no such page"),
        (410, "removed"),
        (401, "login"),
        (403, "refuses access"),
        (304, "no page"),
    ],
)
async def test_an_answer_that_will_stay_is_not_asked_for_again(
    site: Site, get: Get, status: int, said: str
) -> None:
    site.pages["/"] = answer(status=f"{status} Status")
    with pytest.raises(FetchRefused, match=said) as refused:
        await get(site.at("/"))
    assert refused.value.status == status
    assert isinstance(refused.value, NotRetryable)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
async def test_an_answer_that_may_pass_is(site: Site, get: Get, status: int) -> None:
    site.pages["/"] = answer(status=f"{status} Status", retry_after="17")
    with pytest.raises(FetchFailed, match=f"answers {status}") as failed:
        await get(site.at("/"))
    assert isinstance(failed.value, Retryable)
    assert (failed.value.status, failed.value.after) == (status, 17)


async def test_a_server_may_say_until_when_to_wait(site: Site, get: Get) -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
    site.pages["/"] = answer(status="503 Busy", retry_after=until)
    with pytest.raises(FetchFailed) as failed:
        await get(site.at("/"))
    assert failed.value.after == pytest.approx(600, abs=30)
    site.pages["/"] = answer(status="503 Busy", retry_after="soon")
    with pytest.raises(FetchFailed) as failed:
        await get(site.at("/"))
    assert failed.value.after is None


async def test_what_has_no_text_in_it_is_refused(site: Site, get: Get) -> None:
    site.pages["/"] = answer(b"x", content_type="video/mp4")
    with pytest.raises(FetchRefused, match="video/mp4: there is no text"):
        await get(site.at("/"))


async def test_a_page_said_to_be_too_large_is_not_begun(
    site: Site, get: Get, tmp_path: Path
) -> None:
    site.pages["/"] = answer(b"x", content_length="1001")
    with pytest.raises(FetchRefused, match="larger than the 1,000 bytes") as refused:
        await get(site.at("/"), FetchLimits(bytes=1000))
    assert refused.value.fault == "too_large"
    assert nothing_in(tmp_path)


async def test_a_page_that_never_ends_is_stopped_at_the_limit(
    site: Site, get: Get, tmp_path: Path
) -> None:
    async def pour(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(bytes(100_000))
            await writer.drain()

    site.pages["/"] = pour
    with pytest.raises(FetchRefused, match="larger than the 3,000,000 bytes"):
        await get(site.at("/"), FetchLimits(bytes=3_000_000))
    assert nothing_in(tmp_path)


async def test_a_bomb_is_stopped_at_the_limit(site: Site, get: Get, tmp_path: Path) -> None:
    site.pages["/"] = answer(gzip.compress(bytes(30_000_000)), content_encoding="gzip")
    with pytest.raises(FetchRefused, match="once it is unpacked") as refused:
        await get(site.at("/"), FetchLimits(bytes=3_000_000))
    assert refused.value.fault == "inflates"
    assert nothing_in(tmp_path)


async def test_a_page_of_exactly_the_limit_is_taken(site: Site, get: Get) -> None:
    site.pages["/"] = answer(bytes(1000))
    assert (await get(site.at("/"), FetchLimits(bytes=1000))).bytes == 1000


async def test_a_page_that_trickles_is_given_up(site: Site, get: Get, tmp_path: Path) -> None:
    """Each byte comes in time, and all of them never would."""

    async def trickle(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    site.pages["/"] = trickle
    with pytest.raises(FetchFailed, match=r"took longer than 0\.3 s to load"):
        await get(site.at("/"), FetchLimits(total=0.3))
    assert nothing_in(tmp_path)


async def test_a_server_that_says_nothing_is_given_up(site: Site, get: Get) -> None:
    given_up = asyncio.Event()

    async def nothing(writer: asyncio.StreamWriter) -> None:
        await given_up.wait()

    site.pages["/"] = nothing
    with pytest.raises(FetchFailed, match="does not answer in time"):
        await get(site.at("/"), FetchLimits(read=0.2))
    given_up.set()


async def test_a_page_that_breaks_off_may_come_whole_another_time(
    site: Site, get: Get, tmp_path: Path
) -> None:
    site.pages["/"] = answer(b"half", content_length="8")
    with pytest.raises(FetchFailed, match="broke off"):
        await get(site.at("/"))
    assert nothing_in(tmp_path)


async def test_a_server_that_talks_nonsense_has_failed(site: Site, get: Get) -> None:
    site.pages["/"] = b"SSH-2.0-OpenSSH\r\n\r\n"
    with pytest.raises(FetchFailed, match="broke off its answer"):
        await get(site.at("/"))


async def test_nobody_at_home_may_pass(get: Get, unused_tcp_port: int) -> None:
    allow = Allowed(("127.0.0.1",), frozenset({unused_tcp_port}))
    with pytest.raises(FetchFailed, match="cannot be reached"):
        await get(f"http://127.0.0.1:{unused_tcp_port}/", allow=allow)


async def test_tls_checks_the_name_while_the_address_is_pinned(
    secure_site: Site, tmp_path: Path, trusted: None
) -> None:
    secure_site.pages["/"] = answer(HTML)
    allow = Allowed(("127.0.0.1",), frozenset({secure_site.port}))
    url = secure_site.at("/", "site.test", "https")
    page = await fetch(url, tmp_path, allow=allow, resolve=here)
    assert page.path.read_bytes() == HTML
    assert f"Host: site.test:{secure_site.port}\r\n" in secure_site.requests[0]
    with pytest.raises(FetchRefused, match=r"cannot show that it is other\.test") as refused:
        await fetch(secure_site.at("/", "other.test", "https"), tmp_path, allow=allow, resolve=here)
    assert refused.value.fault == "certificate"


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    secure_site: Site, tmp_path: Path
) -> None:
    allow = Allowed(("127.0.0.1",), frozenset({secure_site.port}))
    with pytest.raises(FetchRefused, match="self-signed"):
        await fetch(secure_site.at("/", "site.test", "https"), tmp_path, allow=allow, resolve=here)


def test_limits_are_not_negative() -> None:
    with pytest.raises(ConfigError, match="total"):
        FetchLimits(total=-1)


def nothing_in(folder: Path) -> bool:
    return list(folder.iterdir()) == []
