import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import ConfigError
from penstock_apps.knowledge.multipart_form import (
    FormField,
    FormItem,
    FormLimits,
    FormParser,
    OversizedFile,
    ReceivedFile,
    UploadRefused,
    receive_form,
)
from tests.knowledge.upload.forms import (
    CONTENT_TYPE,
    chunks,
    file,
    form,
    part,
    written_by_httpx,
)


async def all_of(
    body: bytes,
    folder: Path,
    limits: FormLimits | None = None,
    *,
    size: int = 65_536,
    content_type: str = CONTENT_TYPE,
) -> list[FormItem]:
    return [item async for item in receive_form(chunks(body, size), content_type, folder, limits)]


async def until_refused(
    body: bytes | AsyncIterator[bytes],
    folder: Path,
    limits: FormLimits | None = None,
    content_type: str = CONTENT_TYPE,
) -> tuple[list[FormItem], UploadRefused]:
    """What was given before the refusal, and the refusal."""
    stream = chunks(body) if isinstance(body, bytes) else body
    given: list[FormItem] = []

    async def take() -> None:
        async for item in receive_form(stream, content_type, folder, limits):
            given.append(item)

    with pytest.raises(UploadRefused) as refused:
        await take()
    return given, refused.value


def content(item: FormItem) -> bytes:
    assert isinstance(item, ReceivedFile)
    return item.path.read_bytes()


def files_in(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def test_what_a_client_sends_is_received(tmp_path: Path) -> None:
    body, content_type = written_by_httpx(
        [
            ("files", ('a "quoted" über.pdf', b"%PDF-1.7", "application/pdf")),
            ("files", ("folder/b.txt", b"", "text/plain")),
        ],
        {"base": "handbook"},
    )
    field, pdf, text = await all_of(body, tmp_path, content_type=content_type)
    assert field == FormField("base", "handbook")
    assert isinstance(pdf, ReceivedFile)
    assert (pdf.name, pdf.field) == ('a "quoted" über.pdf', "files")
    assert (pdf.media_type, pdf.bytes) == ("application/pdf", 8)
    assert pdf.digest == sha256(b"%PDF-1.7").digest()
    assert content(pdf) == b"%PDF-1.7"
    assert isinstance(text, ReceivedFile)
    assert (text.name, text.bytes, content(text)) == ("folder/b.txt", 0, b"")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
async def test_the_network_may_cut_an_upload_anywhere(tmp_path: Path, size: int) -> None:
    tricky = b"\r\n--frontie\r\n--frontier-\r\r\n--"
    body = form(file("a", tricky), part('form-data; name="x"', b"value"), file("b", b"\r\n" * 3))
    a, x, b = await all_of(body, tmp_path, size=size)
    assert (content(a), x, content(b)) == (tricky, FormField("x", "value"), b"\r\n" * 3)


@given(data=st.lists(st.binary(max_size=300), max_size=4), size=st.integers(1, 400))
@settings(max_examples=50, deadline=None)
def test_any_bytes_in_any_chunks_are_found_again(data: list[bytes], size: int) -> None:
    """The parser alone, without disk: the same bytes come out."""
    parts = FormParser(CONTENT_TYPE, FormLimits())
    found: list[bytes] = []
    body = form(*(file("a", each) for each in data))
    for start in range(0, len(body), size):
        for event in parts.feed(body[start : start + size]):
            if isinstance(event, dict):
                found.append(b"")
            elif isinstance(event, bytes):
                found[-1] += event
    assert parts.complete
    assert found == data


async def test_each_file_is_given_before_the_next_one_arrives(tmp_path: Path) -> None:
    arrived = 0

    async def slowly() -> AsyncIterator[bytes]:
        nonlocal arrived
        for number in range(3):
            arrived = number
            yield file(f"{number}", b"x")
        yield form()

    seen = [
        (item.name, arrived)
        async for item in receive_form(slowly(), CONTENT_TYPE, tmp_path)
        if isinstance(item, ReceivedFile)
    ]
    # A file is over once the boundary behind it is there.
    assert seen == [("0", 1), ("1", 2), ("2", 2)]


async def test_interrupted_upload_keeps_its_whole_files_only(tmp_path: Path) -> None:
    given, refused = await until_refused(form(file("a", b"a"), file("b", b"b"))[:-40], tmp_path)
    assert [content(each) for each in given] == [b"a"]
    assert refused.fault == "cut_off"
    assert "are kept" in str(refused)
    assert files_in(tmp_path) == 1


async def test_so_does_one_whose_connection_breaks(tmp_path: Path) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield form(file("a", b"a"), file("b", os.urandom(3_000_000)))[:2_000_000]
        raise ConnectionResetError

    given, refused = await until_refused(breaking(), tmp_path)
    assert [content(each) for each in given] == [b"a"]
    assert refused.fault == "cut_off"
    assert files_in(tmp_path) == 1


async def test_who_stops_receiving_leaves_no_half_file(tmp_path: Path) -> None:
    body = form(file("a", b"a"), file("b", os.urandom(3_000_000)))

    async def half() -> AsyncIterator[bytes]:
        yield body[:2_000_000]
        await asyncio.Event().wait()

    async def take() -> None:
        async with aclosing(receive_form(half(), CONTENT_TYPE, tmp_path)) as items:
            async for item in items:
                assert isinstance(item, ReceivedFile)
                with item:
                    got.set()

    got = asyncio.Event()
    task = asyncio.create_task(take())
    await got.wait()
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    assert files_in(tmp_path) == 0


async def test_oversized_file_is_skipped_and_others_are_received(tmp_path: Path) -> None:
    body = form(file("a", b"a"), file("big", bytes(2_000_000)), file("c", b"c"))
    a, big, c = await all_of(body, tmp_path, FormLimits(file_bytes=1_500_000))
    assert (content(a), content(c)) == (b"a", b"c")
    assert big == OversizedFile("big", "files", 2_000_000, 1_500_000)
    assert isinstance(big, OversizedFile)
    assert "big has 2,000,000 bytes, but a file may have at most 1,500,000" in big.message
    assert files_in(tmp_path) == 2


async def test_a_file_of_exactly_the_limit_is_taken(tmp_path: Path) -> None:
    (item,) = await all_of(form(file("a", bytes(100))), tmp_path, FormLimits(file_bytes=100))
    assert isinstance(item, ReceivedFile)


@pytest.mark.parametrize(
    ("limits", "fault", "said"),
    [
        (FormLimits(files=2), "too_many", "may have at most 2 files"),
        (FormLimits(fields=1), "too_many", "may have at most 1 fields"),
        (FormLimits(field_bytes=4), "too_large", "The field two has more than 4 bytes"),
        (FormLimits(request_bytes=300), "too_large", "may have at most 300 bytes"),
    ],
)
async def test_what_is_too_much_is_refused_and_what_came_before_stays(
    tmp_path: Path, limits: FormLimits, fault: str, said: str
) -> None:
    first = file("a", b"a") + part('form-data; name="one"', b"1") + file("b", b"b")
    rest = form(part('form-data; name="two"', b"12345"), file("c", b"c"))

    async def in_two() -> AsyncIterator[bytes]:
        yield first
        yield rest

    given, refused = await until_refused(in_two(), tmp_path, limits)
    assert refused.fault == fault
    assert said in str(refused)
    assert content(given[0]) == b"a"


async def test_long_headers_are_refused(tmp_path: Path) -> None:
    _, refused = await until_refused(
        form(file("x" * 5000, b"")), tmp_path, FormLimits(header_bytes=99)
    )
    assert refused.fault == "too_large"
    assert "shorter name" in str(refused)
    many = form(file("a", b"", *(f"X-{number}: 1" for number in range(50))))
    _, refused = await until_refused(many, tmp_path)
    assert refused.fault == "too_large"


@pytest.mark.parametrize(
    ("body", "content_type", "fault", "said"),
    [
        (b"{}", "application/json", "not_multipart", "not as 'application/json'"),
        (b"", "", "not_multipart", "multipart/form-data"),
        (form(), "multipart/form-data", "broken", "no boundary"),
        (form(), f"multipart/form-data; boundary={'x' * 1000}", "broken", "multipart support"),
        (b"nonsense", CONTENT_TYPE, "broken", "multipart support"),
        (b"", CONTENT_TYPE, "cut_off", "broke off"),
        (form(part("attachment", b"x")), CONTENT_TYPE, "broken", "which field"),
        (
            form(file("a", b"eA==", "Content-Transfer-Encoding: base64")),
            CONTENT_TYPE,
            "broken",
            "written in base64",
        ),
    ],
)
async def test_what_is_no_form_is_refused_with_a_remedy(
    tmp_path: Path, body: bytes, content_type: str, fault: str, said: str
) -> None:
    given, refused = await until_refused(body, tmp_path, content_type=content_type)
    assert given == []
    assert refused.fault == fault
    assert said in str(refused)
    assert files_in(tmp_path) == 0


async def test_files_before_a_fault_in_the_same_chunk_are_given(tmp_path: Path) -> None:
    given, refused = await until_refused(file("a", b"a") + b"--frontier\r\n:bad\r\n", tmp_path)
    assert [content(each) for each in given] == [b"a"]
    assert refused.fault == "broken"


async def test_an_input_that_nobody_put_a_file_into_is_no_file(tmp_path: Path) -> None:
    assert await all_of(form(file("", b"")), tmp_path) == []
    (unnamed,) = await all_of(form(file("", b"x")), tmp_path)
    assert isinstance(unnamed, ReceivedFile)
    assert unnamed.name == "unnamed"


async def test_an_empty_form_is_a_form(tmp_path: Path) -> None:
    assert await all_of(form(), tmp_path) == []


async def test_no_name_of_a_client_becomes_a_path(tmp_path: Path) -> None:
    (item,) = await all_of(form(file("../../etc/passwd", b"x")), tmp_path)
    assert isinstance(item, ReceivedFile)
    assert item.name == "etc/passwd"
    assert item.path.parent == tmp_path
    assert "passwd" not in item.path.name


async def test_a_media_type_that_is_none_is_unknown(tmp_path: Path) -> None:
    body = form(
        file("a", b"", "Content-Type: x<script>"), file("b", b"", "Content-Type: Text/HTML;x")
    )
    types = [
        each.media_type for each in await all_of(body, tmp_path) if isinstance(each, ReceivedFile)
    ]
    assert types == ["application/octet-stream", "text/html"]


async def test_a_media_type_keeps_the_encoding_that_is_declared(tmp_path: Path) -> None:
    said = ["text/csv; charset=Windows-1251", "text/csv;charset=utf-8", 'text/csv; charset="a b"']
    body = form(*(file(each[-3:-1], b"", f"Content-Type: {each}") for each in said))
    types = [
        each.media_type for each in await all_of(body, tmp_path) if isinstance(each, ReceivedFile)
    ]
    assert types == ["text/csv; charset=windows-1251", "text/csv", "text/csv"]


async def test_a_full_disk_is_said_to_be_one(tmp_path: Path) -> None:
    _, refused = await until_refused(form(file("a", b"a")), tmp_path / "missing")
    assert refused.fault == "disk"
    assert "Try again later" in str(refused)


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="file_bytes"):
        FormLimits(file_bytes=0)
